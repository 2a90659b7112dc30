"""Restricts the reads of a model file to the inputs that its target declares.

Bazel only reruns an action when one of its declared inputs changes. A model file that reads anything else, such as a
file elsewhere on the disk or a server, would give the same program forever, even if that changes. So while training and
export run, each undeclared read fails with an error that says what to declare.

There are two mechanisms. An audit hook (PEP 578) observes what Python opens, lists, loads, starts and connects to, and
knows whose code did it. And if the kernel supports it, Landlock, through `confine_process`, refuses reads by C++ and by
started programs, which bypass Python. Checks whether a file exists, the clock and the environment are not observed.
"""

# A path is handled as the audited call has it; pathlib would resolve or reject some.
# ruff: noqa: PTH100, PTH109, PTH110, PTH112, PTH117, PTH118, PTH208

import contextlib
import errno
import os
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tools.pipeline.declared_reads.landlock import confine_reads
from tools.quiet.console import UserError

# Files that describe the machine, and those of the C library and the dynamic linker, which torch and Python need.
SYSTEM = (
    *("/dev", "/etc", "/proc", "/sys", "/usr/share/zoneinfo"),
    *("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64"),
)

# The folders of the programs that torch starts.
_PROGRAMS = [Path(name) for name in ("/bin", "/sbin", "/usr/bin", "/usr/sbin")]

_ADVICE = "add it to `data` of the target, and read it by its path from the workspace's root"


class UndeclaredRead(PermissionError):
    """A read that the target doesn't declare; the message names it and how to declare it."""


class _Guard:
    """The permitted reads while a step runs, and the audit hook's handlers.

    Args:
      declared: the declared inputs; everything below a declared directory is declared.
      environment: directories of Python, its packages and this tool.
    """

    def __init__(self, declared: Iterable[Path], environment: Iterable[Path]) -> None:
        names = [os.path.abspath(path) for path in declared]
        # Both the target's name and the destination of the link that Bazel creates for it.
        self._declared = set(names) | {os.path.realpath(name) for name in names}
        folders = [os.path.abspath(path) for path in environment]
        self._folders = [*SYSTEM, *folders, *(os.path.realpath(folder) for folder in folders)]
        self._writable = [os.path.realpath(path) for path in (tempfile.gettempdir(), os.getcwd(), "/dev", "/proc")]
        # Files that the step itself has written, which it may read again.
        self._own: set[str] = set()
        # The first read that was refused to the user's own code, `file:line: message`: the code may catch the error.
        self.refused = ""

    def handle(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises UndeclaredRead if the audited event is a read of something undeclared."""
        try:
            _HANDLERS[event](self, *arguments)
        except UndeclaredRead as error:
            place = self._user_place()
            if place and not self.refused:
                self.refused = f"{place}: {error}"
            raise

    def _on_open(self, path: Any, mode: Any, flags: Any) -> None:
        name = _absolute(path)
        flags = flags if isinstance(flags, int) else os.O_RDONLY
        access = flags & os.O_ACCMODE
        if name is None:
            return
        if access != os.O_RDONLY:
            self._check_write(name)
        if self._may_read(name):
            return
        exists = os.path.exists(name)
        if access != os.O_RDONLY and (not exists or flags & os.O_TRUNC):
            self._own.add(name)
        elif access == os.O_WRONLY:
            pass
        elif os.path.isdir(name):
            self._on_list(path)
        elif exists:
            # A sandbox hides this file from an action, whose code then finds the declared one beside the model file.
            given = os.path.normpath(os.fsdecode(path))
            if not os.path.isabs(given) and any(input.endswith(os.sep + given) for input in self._declared):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
            raise UndeclaredRead(f"{_shown(name)} is read, but is not an input of the target; {_ADVICE}.")

    def _check_write(self, name: str) -> None:
        """Raises UndeclaredRead unless the file is temporary or the action's own.

        Bazel's sandbox refuses the others, too, but a worker has no sandbox, and there a name in the workspace leads to
        a file of the user's.
        """
        target = os.path.realpath(name)
        is_input = _is_in(name, self._declared) or _is_in(target, self._declared)
        if target not in self._own and (is_input or not _is_below(target, self._writable)):
            what = "is an input of the target, and" if is_input else "is no temporary file, but"
            raise UndeclaredRead(f"{_shown(name)} {what} opened for writing; write to a file in tempfile.mkdtemp().")

    def _on_list(self, path: Any) -> None:
        name = _absolute("." if path is None else path)
        if name is None or self._may_read(name) or not os.path.isdir(name) or _by_import():
            return
        # Bazel's sandbox hides undeclared files of an input directory, but not every action runs in it.
        for entry in sorted(os.path.join(name, entry) for entry in os.listdir(name)):
            if not self._may_read(entry) and not self._leads_to_input(entry):
                what = f"{_shown(name)} is listed, but {_shown(entry)}"
                raise UndeclaredRead(f"{what} is not an input of the target; {_ADVICE}.")

    def _on_load_library(self, name: Any) -> None:
        path = _absolute(name) if name and "/" in os.fsdecode(name) else None
        if path is not None and not self._may_read(path):
            raise UndeclaredRead(f"{_shown(path)} is loaded, but is not an input of the target; {_ADVICE}.")
        if path is None and self._by_user():
            raise UndeclaredRead(
                f"the C library {name or '(this process)'} is called directly; what it reads can't be checked. Read "
                "files in Python, and declare them as `data`."
            )

    def _on_start(self, program: Any, *_: Any) -> None:
        if self._by_user():
            raise UndeclaredRead(
                f"the program {os.fsdecode(program) if program else '(a shell)'} is started; what it reads can't be "
                "checked. Let another target run it, and declare its output as `data`."
            )

    def _on_connect(self, *arguments: Any) -> None:
        address = next((a for a in arguments if isinstance(a, (str, bytes, tuple))), "")
        # Processes of one program communicate by sockets in the file system.
        if isinstance(address, (str, bytes)) and (not address or os.fsdecode(address)[:1] in ("/", "\0")):
            return
        where = ":".join(str(part) for part in address[:2]) if isinstance(address, tuple) else os.fsdecode(address)
        raise UndeclaredRead(f"the network is used ({where}); download the file, and add it to `data` of the target.")

    def _on_name_lookup(self, host: Any, *_: Any) -> None:
        if host:
            self._on_connect(host if isinstance(host, tuple) else (host,))

    def _on_make_directory(self, path: Any, *_: Any) -> None:
        name = _absolute(path)
        if name is not None and not os.path.exists(name):
            self._own.add(name)

    def _on_rename(self, source: Any, target: Any, *_: Any) -> None:
        old, new = _absolute(source), _absolute(target)
        if old in self._own and new is not None:
            self._own.add(new)

    def _may_read(self, name: str) -> bool:
        target = os.path.realpath(name)
        # A link that the step itself has made counts as its destination.
        return any(
            _is_below(path, self._folders) or _is_in(path, self._declared) or _is_in(target, self._own)
            for path in (name, target)
        )

    def _leads_to_input(self, folder: str) -> bool:
        return any(path.startswith(folder + os.sep) for path in self._declared)

    def _by_user(self) -> bool:
        return bool(self._user_place())

    def _user_place(self) -> str:
        """Returns `file:line` of the code that caused the event if it is the user's own, not a package's; otherwise
        empty.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith("<") and file != __file__ and not _is_below(file, [_STANDARD_LIBRARY]):
                mine = not _is_below(os.path.abspath(file), self._folders)
                return f"{file}:{frame.f_lineno}" if mine else ""
            frame = frame.f_back
        return ""


_HANDLERS: dict[str, Callable[..., None]] = {
    "open": _Guard._on_open,
    "os.listdir": _Guard._on_list,
    "os.scandir": _Guard._on_list,
    "sqlite3.connect": lambda guard, path: guard._on_open(path, None, os.O_RDONLY),
    "ctypes.dlopen": _Guard._on_load_library,
    "subprocess.Popen": _Guard._on_start,
    "os.system": _Guard._on_start,
    "os.exec": _Guard._on_start,
    "os.posix_spawn": _Guard._on_start,
    "os.spawn": lambda guard, mode, path, *rest: guard._on_start(path),
    "pty.spawn": _Guard._on_start,
    "socket.connect": _Guard._on_connect,
    "socket.sendto": _Guard._on_connect,
    "socket.sendmsg": _Guard._on_connect,
    "socket.getaddrinfo": _Guard._on_name_lookup,
    "socket.gethostbyname": _Guard._on_name_lookup,
    "socket.gethostbyaddr": _Guard._on_name_lookup,
    "os.mkdir": _Guard._on_make_directory,
    "os.rename": _Guard._on_rename,
}

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")

_active: _Guard | None = None
_installed = False
_thread = threading.local()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    guard = _active
    if guard is None or event not in _HANDLERS or getattr(_thread, "is_handling", False):
        return
    # The handlers' own file accesses raise events, too.
    _thread.is_handling = True
    try:
        guard.handle(event, arguments)
    finally:
        _thread.is_handling = False


@contextlib.contextmanager
def declared_reads(declared: Iterable[Path]) -> Iterator[None]:
    """Makes all reads fail, except of `declared`, the Python environment and files that were written meanwhile.

    Args:
      declared: the target's inputs, files or directories. Missing ones are ignored.

    Raises:
      UndeclaredRead, in the code that reads; a package may do without an optional file. UserError at the end, if the
      user's own code caught it: its fallback would depend on the machine.
    """
    global _active, _installed
    if not _installed:
        # A hook can't be removed, so there is a single one, which does nothing outside of this context.
        sys.addaudithook(_hook)
        _installed = True
    guard = _Guard(declared, environment())
    before, _active = _active, guard
    try:
        yield
    finally:
        _active = before
    if guard.refused:
        raise UserError(guard.refused)


def environment() -> list[Path]:
    """Returns the directories of Python, of its packages and of this tool."""
    folders = [Path(sys.prefix), Path(sys.base_prefix), *(Path(entry) for entry in sys.path if entry)]
    return folders + [Path(os.environ[name]) for name in ("RUNFILES_DIR",) if os.environ.get(name)]


def _absolute(path: Any) -> str | None:
    """Returns the path as a normalized absolute name, or None if it is not a path (a descriptor)."""
    if isinstance(path, int) or path is None:
        return None
    try:
        return os.path.abspath(os.fsdecode(path))
    except TypeError:
        return None


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(folder + os.sep) for folder in folders)


def _is_in(name: str, paths: set[str]) -> bool:
    """Whether the path or a directory above it is among `paths`."""
    return name in paths or any(str(parent) in paths for parent in Path(name).parents)


def _by_import() -> bool:
    """Whether the import system caused the event; it opens the files that it then loads."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


def _shown(name: str) -> str:
    """Shortens a path below the workspace's root."""
    root = os.getcwd() + os.sep
    return name.removeprefix(root)


def confine_process(declared: Iterable[Path]) -> None:
    """Makes the kernel permanently refuse undeclared reads of this process, including those that bypass Python.

    It refuses what `declared_reads` refuses, except this process's temporary files.
    """
    folders = [*(Path(name) for name in SYSTEM), *_PROGRAMS, *environment(), Path(tempfile.gettempdir())]
    names = list(declared)
    # Python lists the folder to import a module beside the model file.
    listed = [Path.cwd(), *(name.parent for name in names)]
    confine_reads([*folders, *_links(Path(os.environ.get("RUNFILES_DIR", os.devnull))), *names], listed)


def _links(tree: Path) -> Iterator[Path]:
    """Yields the symbolic links in a tree of runfiles, because the kernel checks their destinations."""
    for name, folders, files in os.walk(tree):
        yield from (path for entry in [*folders, *files] if (path := Path(name, entry)).is_symlink())
