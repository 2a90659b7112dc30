"""Reports an error with a file as one message to the user."""

import contextlib
import lzma
import os
import stat
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from .console import UserError, system_error

# json, numpy and zipfile raise these for foreign and truncated files, and so does code that parses foreign content.
_SOMETHING_ELSE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    EOFError,
    MemoryError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
    SyntaxError,
)

# Everybody may read a new file.
_PERMISSIONS = 0o644


@contextlib.contextmanager
def reading(what: str, path: Path, advice: str) -> Iterator[None]:
    """Turns what fails while the body reads and takes apart a file into a UserError.

    Args:
      what: the kind of file, such as "memory plan".
      path: the file.
      advice: the next step, such as "pass the plan.json of a torch_firmware".

    Raises:
      UserError: the body met a file that cannot be read (OSError), or one that is something else than `what`.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} {path}: {error.strerror or error}; {advice}") from error
    except _SOMETHING_ELSE as error:
        raise UserError(f"{path} is no {what} ({type(error).__name__}: {error}); {advice}") from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what fails while the body writes a file that the user named into a UserError.

    Raises:
      UserError: the body met a file that cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise UserError(system_error(error, path, "choose a folder that exists and can be written to")) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives the body the name of a new file, which replaces the named one when all is written, as writing() does.

    Whatever ends the body, a full disk or Ctrl-C, the file is the old one or the new one. A link stays one, and what is
    no file, such as a terminal, is written to where it is.

    Raises:
      UserError: the body met a file that cannot be written.
    """
    with writing(path):
        target = path.resolve()
        if target.exists() and not target.is_file():
            yield path
            return
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=target.suffix, dir=target.parent)
        os.close(descriptor)
        partial = Path(name)
        try:
            yield partial
            partial.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else _PERMISSIONS)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Writes a file of text, as replacing() does.

    Raises:
      UserError: the file cannot be written.
    """
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
