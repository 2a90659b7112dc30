import struct
from pathlib import Path

from boardsim.boards import simulated
from boardsim.executed import Recorder
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board
from tools.verify.cycles.cycles import Part, estimate_stretches
from tools.verify.cycles.disassembly import parse_instruction
from tools.verify.cycles.timing import timing_of

_CYCCNT = 0xE0001004

# A loop of three iterations between reads of the counter, as firmware/board.h measures.
_CODE = [
    (0x6801, "ldr", "r1, [r0]"),
    (0x2203, "movs", "r2, #3"),
    (0x3A01, "subs", "r2, #1"),
    (0xD1FD, "bne", "#20000404"),
    (0x6801, "ldr", "r1, [r0]"),
    (0x6801, "ldr", "r1, [r0]"),
    (0xE7FE, "b", "#2000040c"),
]


def test_cycles_between_reads_of_the_counter(tmp_path: Path) -> None:
    machine = simulated(read_board(write_board(tmp_path, simulator={"chip": "stm32wb55rg"})))
    machine.debugger.write(0x20000400, struct.pack("<7H", *(code for code, _, _ in _CODE)))
    machine.debugger.write(0x08000000, struct.pack("<II", 0x20000400, 0x20000401))
    machine.reset()
    machine.cpu.set("r0", _CYCCNT)
    recorder = Recorder(machine)
    # The engine stops in the middle of the loop.
    for instructions in (4, 20):
        machine.run(instructions)
    addresses = range(0x20000400, 0x20000410, 2)
    image = {
        address: parse_instruction(address, 2, name, operands)
        for address, (_, name, operands) in zip(addresses, _CODE, strict=False)
    }
    timing = timing_of("cortex-m4")
    assert timing is not None
    parts = recorder.parts(image, timing)
    # Load 2, move 1, three subtractions, two branches of 2 and one that is not taken; DDI 0439, 3.3.1.
    assert parts[1:3] == [Part(8, 2 + 1 + 3 + 2 * 2 + 1), Part(1, 2)]
    assert estimate_stretches(parts, [7], 0) == [9]
    assert estimate_stretches(parts, [9], 1) is None
