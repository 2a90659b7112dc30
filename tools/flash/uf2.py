"""The drive that a board in its UF2 boot loader shows."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.quiet.console import UserError

# The file that tells a UF2 boot loader's drive from others (UF2 specification, "Files exposed by bootloaders").
_MARK = "INFO_UF2.TXT"


def uf2_drives(mounts: Path = Path("/proc/mounts")) -> list[Path]:
    """Where such drives are mounted."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # The kernel writes blanks in paths as octal escapes.
    folders = [Path(line.split()[1].replace("\\040", " ")) for line in lines if len(line.split()) > 1]
    return [folder for folder in folders if (folder / _MARK).is_file()]


def find_drive(mounts: Path = Path("/proc/mounts")) -> Path:
    """Where the only drive is mounted.

    Raises:
        UserError: there is none, or more than one.
    """
    drives = uf2_drives(mounts)
    if not drives:
        raise UserError(
            "no UF2 drive is mounted: hold BOOTSEL while you plug the board in, and mount the drive that appears "
            "(desktops do that by themselves)"
        )
    if len(drives) > 1:
        raise UserError(f"several UF2 drives: {', '.join(map(str, drives))}; unplug all boards but one")
    return drives[0]


def copy_uf2(image: Path, mounts: Path = Path("/proc/mounts")) -> Path:
    """Copies an image to the drive. Returns the drive.

    Raises:
        UserError: there is no drive, or it cannot be written.
    """
    drive = find_drive(mounts)
    try:
        shutil.copyfile(image, drive / image.name)
    except OSError as error:
        raise UserError(f"{drive / image.name}: {error.strerror}; plug the board in again") from error
    return drive
