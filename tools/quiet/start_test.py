"""Ctrl-C, wherever a program is."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A second of imports, then work with something to tidy up.
_PROGRAM = """\
import sys, time
print("importing", flush=True)
time.sleep({importing})
try:
    print("working", flush=True)
    time.sleep({working})
finally:
    print("tidied", flush=True)
print(sys.argv[1:])
sys.exit(3)
"""


def start(folder: Path, importing: float, working: float) -> subprocess.Popen[str]:
    (folder / "slow.py").write_text(_PROGRAM.format(importing=importing, working=working), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "slow", "an argument"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # The launcher ignores the signal, too, until there is something that handles it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "program"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_runs_as_with_python_m(tmp_path: Path) -> None:
    process = start(tmp_path, 0, 0)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (3, "importing\nworking\ntidied\n['an argument']\n", "")


@pytest.mark.parametrize("file", ["program.py", "program/program.py"])
def test_a_program_is_main_of_a_module_or_of_its_package(file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("def main():\n    return 3\n", encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "program"]
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False).returncode == 3


@pytest.mark.parametrize(("last", "importing", "tidied"), [("importing", 60, ""), ("working", 0, "tidied\n")])
def test_an_interrupt_is_one_line_and_status_130(last: str, importing: float, tidied: str, tmp_path: Path) -> None:
    process = start(tmp_path, importing, 60)
    assert process.stdout is not None
    while process.stdout.readline().strip() != last:
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, tidied, "\ntool: interrupted\n")


def test_an_interrupt_that_python_makes_another_error_of(tmp_path: Path) -> None:
    program = "import os, signal\nclass Name:\n    def __set_name__(self, *_): os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "defines.py").write_text(program + "class Class:\n    name = Name()\n", encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "defines"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (130, "\ntool: interrupted\n")


def test_an_interrupt_while_python_waits_for_a_thread(tmp_path: Path) -> None:
    program = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nprint('done', flush=True)\n"
    )
    (tmp_path / "slow.py").write_text(program, encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "slow"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "\ntool: interrupted\n")


def test_an_interrupt_while_python_ends(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "class Last:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "last = Last()\n"
        "last.itself = last\n"
        "print('done')\n"
    )
    result = run(tmp_path, program)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("sys.exit()", (0, "", "")),
        ("sys.exit(3)", (3, "", "")),
        ("sys.exit('no')", (1, "", "no\n")),
        ("print('last', end='')", (0, "last", "")),
        ("atexit.register(print, 'later')", (0, "later\n", "")),
        ("threading.Timer(0.2, print, ['threads']).start()", (0, "threads\n", "")),
        ("folder = tempfile.TemporaryDirectory(dir='.')", (0, "", "")),
    ],
)
def test_a_program_ends_as_with_python(tmp_path: Path, program: str, expected: tuple[int, str, str]) -> None:
    result = run(tmp_path, f"import atexit, sys, tempfile, threading\n{program}\n")
    left = [path for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert ((result.returncode, result.stdout, result.stderr), left) == (expected, [])


def test_other_errors_keep_their_traceback(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("1 / 0\n", encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "fails"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and result.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("last", ["print('text')", "print('text' * 100_000)", "print('text'); sys.exit(0)"])
@pytest.mark.parametrize(
    ("nobody", "expected"),
    [(False, (1, "tool: error: No space left on device; free some space, then start it again\n")), (True, (141, ""))],
)
def test_output_that_is_not_taken(tmp_path: Path, last: str, nobody: bool, expected: tuple[int, str]) -> None:
    # argparse prints its help like this, before a tool's own code runs.
    (tmp_path / "prints.py").write_text(f"import sys\n{last}\n", encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "tool", "prints"]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, Path("/dev/full").open("w") as full:
        out = pipe if nobody else full
        result = subprocess.run(
            command, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (result.returncode, result.stderr) == expected


def test_no_moment_gives_a_traceback(tmp_path: Path) -> None:
    for step in range(12):
        process = start(tmp_path, 60, 0)
        # From before Python runs to after the module has begun. What nothing handles yet is sent again, as users do.
        time.sleep(step * 0.01)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "\ntool: interrupted\n")
