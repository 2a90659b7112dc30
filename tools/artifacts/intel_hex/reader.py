"""NAME.hex of a torch_firmware, read."""

from pathlib import Path

from intelhex import IntelHex, IntelHexError

from tools.quiet.console import UserError


def read_intel_hex(path: Path) -> list[tuple[int, bytes]]:
    """The contiguous pieces of an Intel HEX file as (address, bytes).

    Raises:
        UserError: the file is missing, empty or no Intel HEX.
    """
    try:
        image = IntelHex(str(path))
    except OSError as error:
        raise UserError(f"image {path}: {error.strerror}; build it first") from error
    except (IntelHexError, UnicodeDecodeError) as error:
        raise UserError(f"image {path} is no Intel HEX file ({error}); pass the .hex of a torch_firmware") from error
    chunks = [(start, bytes(image.tobinarray(start=start, end=end - 1))) for start, end in image.segments()]
    if not chunks:
        raise UserError(f"image {path} is empty; pass the .hex of a torch_firmware")
    return chunks
