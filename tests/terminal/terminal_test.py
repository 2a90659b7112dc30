"""Tests output of commands in a terminal of 80 columns and in a file: paths are whole, and a file gets text alone."""

import contextlib
import fcntl
import importlib
import os
import re
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.commands.flash.flash import ProgressBar
from tools.verify.run_pte.cases import Runner
from tools.verify.run_pte.run_pte import Runners

# The arguments of each command. BAD is a file that cannot be, whose path is longer than the terminal is wide.
_MISTAKES = {
    "boardsim.boardsim": "--board BAD --elf BAD",
    "docs.rules_page": "BAD --output page.md",
    "docs.site.serve": "BAD",
    "runtime.fuzz.__main__": "--replay BAD",
    "third_party.python.update_lock": "--directory BAD",
    "tools.artifacts.board.table": "BAD --brief README.md",
    "tools.commands.benchmark.benchmark": "--index BAD --qemu qemu",
    "tools.commands.copy.copy": "--file FILE BAD",
    "tools.commands.explore.explore": "BAD --boards pico",
    "tools.commands.flash.flash": "--hex BAD --board BAD --simulate",
    "tools.commands.gdb.gdb": "--elf BAD --board BAD --simulate",
    "tools.commands.infer.infer": "--elf BAD --board BAD --simulate --dataset BAD",
    "tools.commands.monitor.monitor": "--elf BAD --board BAD --simulate",
    "tools.commands.netron.netron": "BAD",
    "tools.commands.new_board.new_board": "--name my_board --core cortex-m4 --clock-hz 1 --flash-length 1M "
    "--ram-length 8K --output BAD",
    "tools.commands.new_model.new_model": "BAD --checkout BAD --output x",
    "tools.commands.on_board.on_board": "--elf BAD --hex BAD --board BAD --golden BAD --probe simulated",
    "tools.commands.packages.audit": "--lock BAD --npm {}",
    "tools.commands.packages.packages": "--lock BAD --npm {}",
    "tools.commands.plot.plot": "--elf BAD --board BAD --simulate",
    "tools.commands.profile.profile": "--index BAD --qemu qemu",
    "tools.commands.prove.prove": "--hex BAD --board BAD --golden BAD --manifest BAD --program BAD "
    "--spdx BAD --objdump BAD --sizes BAD --graph BAD --simulate",
    "tools.commands.update.update": "--elf BAD --board BAD --simulate BAD",
    "tools.commands.verify.verify": "--file a.elf BAD",
    "tools.verify.emulate.emulate": "--elf BAD --board BAD --qemu qemu",
    "tools.verify.reproducibility.hashes": "--recorded BAD --update-command x //m:a portable BAD",
    "tools.verify.run_pte.run_pte": "BAD",
}

# The names of commands in documents, where they aren't the module's.
_NAMES = {"benchmarks": "benchmark", "list": "packages", "live": "plot", "simulate": "boardsim", "fuzz": "__main__"}
_DOCUMENTED = re.compile(r"bazelw? run (?:--\S+ )*((?:@torch_fusion)?(?://|:)[\w/:.<>]+)(?: --\S+)* -- ([^#`\n]*)")


@contextlib.contextmanager
def _descriptors(to: int) -> Iterator[None]:
    """Sends output and errors elsewhere, those of programs that are started, too."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    os.dup2(to, 1)
    os.dup2(to, 2)
    try:
        with (
            open(1, "w", closefd=False) as out,
            open(2, "w", closefd=False) as err,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            yield
    finally:
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _in_terminal(run: Callable[[], int]) -> tuple[int, str]:
    """Returns the exit status, and what a terminal of 80 columns shows."""
    screen, terminal = os.openpty()
    with os.fdopen(screen, "rb", buffering=0) as reader:
        try:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            with _descriptors(terminal):
                status = run()
        finally:
            os.close(terminal)
        shown = b""
        # A terminal that nobody has open any more ends with an error.
        with contextlib.suppress(OSError):
            while part := reader.read(1 << 12):
                shown += part
    return status, shown.decode()


def _in_file(run: Callable[[], int], file: Path) -> tuple[int, str]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        with _descriptors(descriptor):
            status = run()
    finally:
        os.close(descriptor)
    return status, file.read_bytes().decode()


def _without_log(text: str) -> str:
    return re.sub(r"\w+\.log", "LOG", text)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    folder = (
        tmp_path / "a_folder_with_a_long_name" / "and another, with blanks in it, so that a line of text could break"
    )
    folder.mkdir(parents=True)
    (folder / "file").touch()
    return folder / "file" / "missing"


@pytest.mark.parametrize("module", _MISTAKES)
def test_a_path_in_an_error_is_whole(module, bad, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    # Programs that the build makes, which take no part in this.
    runners = Runners({"board": Runner(Path("none"), None, Path("none"))})
    monkeypatch.setattr("tools.verify.run_pte.run_pte.read_runners", lambda: runners)
    monkeypatch.setenv("FUZZER", "fuzzer")
    monkeypatch.setenv("SEEDS", "seeds")
    monkeypatch.delenv("COLUMNS", raising=False)
    words = {"BAD": str(bad), "FILE": str(bad.parent)}
    arguments = [words.get(word, word) for word in _MISTAKES[module].split()]

    def run() -> int:
        return importlib.import_module(module).main(arguments)

    with capfd.disabled():
        status, shown = _in_terminal(run)
        redirected = _in_file(run, tmp_path / "output")
    assert status == 1 and str(bad) in shown, shown
    # A terminal's line ends with a carriage return, too.
    assert _without_log(redirected[1]) == _without_log(shown.replace("\r\n", "\n"))
    assert redirected[0] == status
    assert redirected[1].replace("\n", "").isprintable()
    assert ": error: " in redirected[1]
    # Further files to read are named below.
    assert all(line.startswith("  (") for line in redirected[1].splitlines()[1:])


def _help(module: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        importlib.import_module(module).main(["--help"])
    return capsys.readouterr().out


def test_commands_have_the_options_that_documents_name(capsys: pytest.CaptureFixture[str]) -> None:
    modules = {module.rpartition(".")[2]: module for module in _MISTAKES}
    found = []
    for document in (Path(path) for path in os.environ["DOCUMENTS"].split() if path.endswith(".md")):
        # Commands of other rooms' own are checked by tests/documents, by the options of all.
        for label, arguments in _DOCUMENTED.findall(document.read_text(encoding="utf-8")):
            name = re.split("[:./]", label)[-1]
            module = modules.get(_NAMES.get(name, name))
            if module and not label.startswith(("//conformance", "//tests")):
                found += [(document.name, module, each) for each in re.findall(r"(?<!\S)--[a-z][a-z-]*", arguments)]
    assert len(found) > 40
    texts = {module: _help(module, capsys) for module in {module for _, module, _ in found}}
    assert [each for each in found if not re.search(rf"{each[2]}(?![\w-])", texts[each[1]])] == []


def test_progress_is_drawn_in_a_line_of_a_terminal_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def draw() -> int:
        bar = ProgressBar()
        for share in (0, 0.5, 1):
            bar(share)
        bar.finish()
        ProgressBar().finish()
        return 0

    with capfd.disabled():
        _, shown = _in_terminal(draw)
        _, redirected = _in_file(draw, tmp_path / "output")
    empty, *states, end = shown.split("\r")
    assert (empty, end) == ("", "\n")
    assert [state.split()[-2] for state in states] == ["0", "50", "100"]
    assert max(map(len, states)) < 80
    assert redirected == ""
