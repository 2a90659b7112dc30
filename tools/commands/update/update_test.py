import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardsim.machine import Machine
from tools.artifacts.board.board import read_board
from tools.commands.console.channel import MachineChannel, simulate
from tools.commands.infer.protocol import Client
from tools.commands.update.update import main, read_update, running_version, send
from tools.quiet.console import UserError

_UPDATES = {Path(path).stem: Path(path) for path in os.environ["UPDATES"].split()}
_DEFINITIONS = {
    Path(path).parent.name: Path(path) for path in os.environ["BOARDS"].split() if path.endswith("board.json")
}
_IMAGES = {Path(path).stem: Path(path) for path in os.environ["IMAGES"].split() if path.endswith(".elf")}
_PATIENCE = 20.0
# The test cuts the power in a few operations on flash; `power_every_step_test` in all of an update.
_EVERY = int(os.environ.get("EVERY", "60"))


class _PowerCut(Exception):
    pass


class _CutChannel(MachineChannel):
    """A console that counts operations on flash, in the n-th of which the board loses power."""

    def __init__(self, machine: Machine, cut: int = -1) -> None:
        super().__init__(machine)
        self.operations = 0
        self._cut = cut
        self._was_busy = False

    def _cuts(self) -> bool:
        chip: Any = self.machine.chip
        busy = (chip.nvmc.operation if hasattr(chip, "nvmc") else chip.flash).busy
        self.operations += busy and not self._was_busy
        self._was_busy = busy
        return self.operations == self._cut

    def read(self, timeout: float) -> bytes:
        while not self._received:
            self.machine.run(20_000, until=lambda: bool(self._received) or self._cuts())
            if self.operations == self._cut:
                self.machine.power_cycle()
                raise _PowerCut
        return super().read(timeout)


def _simulated(board: str) -> Machine:
    return simulate(_IMAGES[board], read_board(_DEFINITIONS[board])).machine


@pytest.fixture(params=sorted(_IMAGES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return _simulated(request.param)


def _started(board: Machine | MachineChannel) -> Client:
    """Lets a board start and run its example, and meets it."""
    channel = MachineChannel(board) if isinstance(board, Machine) else board
    text = b""
    while not text.endswith(b"> "):
        received = channel.read(_PATIENCE)
        assert received, text
        text += received
    return Client(channel, _PATIENCE)


def _update(client: Client, name: str) -> None:
    send(client, _UPDATES[name].read_bytes())


def _runs_well(client: Client) -> None:
    (output,) = client.infer([np.full(client.device.inputs[0].shape, 1.5, np.float32)]).outputs
    assert abs(float(output.reshape(-1)[0]) - np.sin(1.5)) < 0.1


def test_a_board_takes_one_update_after_another(machine: Machine) -> None:
    client = _started(machine)
    assert running_version(client)[0] == 1
    for name, version in (("version_2", 2), ("version_3", 3)):
        _update(client, name)
        client = _started(machine)
        assert running_version(client)[0] == version
        _runs_well(client)
    with pytest.raises(UserError, match="not above that of each program"):
        _update(client, "version_2")
    # While a signature is checked nothing reads the console, and a request that is sent again meanwhile is lost.
    assert [note for note in machine.notes if "lost" not in note] == []


# Boards differ in how they write flash alone.
_one_board = pytest.mark.parametrize("machine", ["nucleo_wb55rg"], indirect=True)


@_one_board
@pytest.mark.parametrize(
    ("name", "why"), [("other_key", "by the key that this firmware trusts"), ("other_product", "for another product")]
)
def test_what_the_product_does_not_trust_is_refused(machine: Machine, name: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        _update(_started(machine), name)
    machine.reset()
    assert running_version(_started(machine))[0] == 1


@_one_board
def test_a_program_that_cannot_be_loaded_is_given_up(machine: Machine) -> None:
    _update(_started(machine), "version_2")
    _update(_started(machine), "other_kernels")
    client = _started(machine)
    assert running_version(client)[0] == 2
    _runs_well(client)


@pytest.mark.parametrize("board", sorted(_IMAGES))
def test_a_power_cut_leaves_the_old_program_or_the_new_one(board: str) -> None:
    # An update from its first byte to its confirmation, after the first execution.
    machine = _simulated(board)
    _update(_started(machine), "version_2")
    _started(machine).close()
    whole = _CutChannel(machine)
    _update(Client(whole, _PATIENCE), "version_3")
    assert running_version(_started(whole))[0] == 3
    found, version = Counter[int](), 3
    for cut in range(whole.operations, 0, -_EVERY):
        if version == 3:
            machine = _simulated(board)
            _update(_started(machine), "version_2")
            _started(machine).close()
        channel = _CutChannel(machine, cut)
        with pytest.raises(_PowerCut):
            _update(Client(channel, _PATIENCE), "version_3")
            _started(channel)
        client = _started(machine)
        version = running_version(client)[0]
        found[version] += 1
        _runs_well(client)
        client.close()
    assert found.keys() == {2, 3}
    print(f"{board}: power cut in {found.total()} of {whole.operations} operations: {found[2]} old, {found[3]} new")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.update"
    other.write_bytes(b"TFSIGNED" + bytes(300))
    with pytest.raises(UserError, match="a signed_program target writes it"):
        read_update(other)
    image = next(iter(_IMAGES))
    arguments = ["--elf", str(_IMAGES[image]), "--board", str(_DEFINITIONS[image]), "--simulate"]
    assert main([*arguments, str(other)]) != 0
