"""The drive that a board in its UF2 boot loader shows."""

import os
from collections.abc import Callable
from pathlib import Path

from tools.artifacts.uf2.uf2 import check_uf2
from tools.commands.flash.chips import chips
from tools.quiet.console import UserError
from tools.quiet.files import reading

# The file that tells a UF2 boot loader's drive from others (UF2 specification, "Files exposed by bootloaders").
_MARK = "INFO_UF2.TXT"
# Bytes between two reports of progress: of a size that the drive's boot loader writes in a moment.
_STEP = 16 * 1024
# UF2 specification, "File format": where the family ID of a block is.
_FAMILY = slice(28, 32)

# The kernel's list of mounts.
MOUNTS = Path("/proc/mounts")


def uf2_drives(mounts: Path | None = None) -> list[Path]:
    """Returns the mount points of such drives from the list `mounts` (MOUNTS if not given)."""
    try:
        lines = (mounts or MOUNTS).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # The kernel writes blanks in paths as octal escapes.
    folders = [Path(line.split()[1].replace("\\040", " ")) for line in lines if len(line.split()) > 1]
    return [folder for folder in folders if (folder / _MARK).is_file()]


def board_id(drive: Path) -> str:
    """Returns the board ID of a drive; empty if it has none."""
    try:
        lines = (drive / _MARK).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Board-ID:")), "")


def find_drive(image: bytes, mounts: Path | None = None) -> Path:
    """Returns the mount point of the only drive that accepts an image.

    Raises:
        UserError: there is none, or more than one.
    """
    drives = uf2_drives(mounts)
    if not drives:
        raise UserError(
            "no UF2 drive is mounted: hold BOOTSEL while you plug the board in, and mount the drive that appears "
            "(desktops do that by themselves)"
        )
    family = int.from_bytes(image[_FAMILY], "little")
    # The prefix of Board-ID in INFO_UF2.TXT, which is unknown for other families.
    name, wanted = next(((chip.name, chip.uf2_board) for chip in chips() if chip.uf2_family == family), ("", ""))
    fitting = [drive for drive in drives if board_id(drive).startswith(wanted)]
    if not fitting:
        others = ", ".join(f"{drive} ({board_id(drive) or 'unknown'})" for drive in drives)
        raise UserError(
            f"the UF2 drive is another board's: {others}, the image is for an {name}; plug that in with BOOTSEL held"
        )
    if len(fitting) > 1:
        raise UserError(f"several UF2 drives: {', '.join(map(str, fitting))}; unplug all boards but one")
    return fitting[0]


def copy_uf2(image: Path, mounts: Path | None = None, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Copies an image to the drive. Returns the drive.

    Args:
        image: the .uf2.
        mounts: the list of mounts, MOUNTS if not given.
        progress: called with the written share.

    Raises:
        UserError: there is no image or drive, or it cannot be written.
    """
    try:
        data = image.read_bytes()
    except OSError as error:
        raise UserError(f"image {image}: {error.strerror}; build it first") from error
    with reading("UF2 image", image, "build it anew"):
        check_uf2(data)
    drive = find_drive(data, mounts)
    target = drive / image.name
    written = 0
    try:
        # Unbuffered, and each step on the drive before the next: the progress is the drive's, not the page cache's.
        with target.open("wb", buffering=0) as file:
            while written < len(data):
                written += file.write(data[written : written + _STEP])
                os.fsync(file.fileno())
                progress(written / len(data))
    except OSError as error:
        # The board restarts with its last block, and the drive is gone while the file is still open.
        if written < len(data):
            raise UserError(
                f"{target}: {error.strerror} after {written:,} of {len(data):,} bytes; plug the board in again with "
                "BOOTSEL held, and run again"
            ) from error
    return drive
