"""Finds debug probes on the USB bus that this user may not open, which nothing else lists."""

import os
from pathlib import Path

from tools.quiet.troubleshooting import more_about

# USB vendors of debug probes -> name, and the file that a udev rule for them is usually kept in.
_VENDORS = {
    "0483": ("ST-LINK", "49-stlinkv2.rules"),
    "0d28": ("CMSIS-DAP probe", "50-cmsis-dap.rules"),
    "2e8a": ("Raspberry Pi debug probe", "50-picoprobe.rules"),
    "1366": ("J-Link", "99-jlink.rules"),
}


def explain_missing_probe(
    devices: Path = Path("/sys/bus/usb/devices"), nodes: Path = Path("/dev/bus/usb"), uf2: bool = False
) -> str:
    """Returns the reason for which no probe was found, in one line with the next step.

    Args:
        devices: where the kernel lists USB devices.
        nodes: where their device files are.
        uf2: whether the board needs no probe, since its boot loader takes UF2 files.
    """
    for device in sorted(devices.glob("*")):
        try:
            vendor = (device / "idVendor").read_text(encoding="ascii").strip()
            bus, number = (int((device / name).read_text(encoding="ascii")) for name in ("busnum", "devnum"))
        except (OSError, ValueError):
            continue
        node = nodes / f"{bus:03d}" / f"{number:03d}"
        if vendor in _VENDORS and not os.access(node, os.R_OK | os.W_OK):
            name, file = _VENDORS[vendor]
            rule = f'SUBSYSTEM=="usb", ATTR{{idVendor}}=="{vendor}", MODE="0666", TAG+="uaccess"'
            return (
                f"no permission to use the {name} at {node}: write the line '{rule}' to /etc/udev/rules.d/{file}, run "
                "`sudo udevadm control --reload && sudo udevadm trigger`, and plug it in again"
            )
    if uf2:
        return (
            "no UF2 drive and no debug probe found: hold BOOTSEL while you plug the board in, and run again once its "
            "drive is mounted; or connect a debug probe; or use --simulate, which needs neither"
            f"{more_about('NoDebugProbe')}"
        )
    return (
        "no debug probe found: connect the board's debug USB port (on a Nucleo, the one named USB ST-LINK), or use "
        f"--simulate, which needs none{more_about('NoDebugProbe')}"
    )
