"""Tests how runs of images end, with programs of this machine in place of the emulator."""

import sys

import pytest

from tools.quiet.console import UserError
from tools.verify.environment.hosted import EmulationError
from tools.verify.run_firmware.run_firmware import run_image


def _program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_an_image_that_ends_with_0_passes() -> None:
    assert run_image(_program("print('hello')"), "demo.elf", [], 60) == "hello\n"


def test_an_image_passes_when_it_has_printed_what_is_expected() -> None:
    endless = "import time\nfor i in range(1000): print('line', i, flush=True); time.sleep(0.01)"
    assert "line 2" in run_image(_program(endless), "demo.elf", ["line 1", "2"], 60)


def test_other_endings_are_named_and_show_the_console() -> None:
    with pytest.raises(EmulationError, match="(?s)Crash: demo.elf ended with status 3.*out of memory"):
        run_image(_program("import sys; print('out of memory'); sys.exit(3)"), "demo.elf", [], 60)
    with pytest.raises(EmulationError, match="demo.elf ended with status 0 before it printed 'ready'"):
        run_image(_program("print('hello')"), "demo.elf", ["hello", "ready"], 60)
    with pytest.raises(EmulationError, match="Timeout: demo.elf did not print 'ready' within 0.5 s"):
        run_image(_program("import time; time.sleep(60)"), "demo.elf", ["ready"], 0.5)
    with pytest.raises(UserError, match="no-such-emulator: No such file"):
        run_image(["no-such-emulator"], "demo.elf", [], 1)
