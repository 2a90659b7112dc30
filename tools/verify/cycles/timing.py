"""Estimates the cycles of instructions on a core, by the tables of its technical reference manual.

All of them assume memory without wait states. Where the manuals are ambiguous, this module assumes: a branch whose
target the core knows early refills its pipeline in one cycle, or in two before a wide instruction that crosses a word,
any other branch in three; divisions, and 64-bit multiplications of Cortex-M3, take the most cycles of their range;
instructions that a condition skips count as executed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.verify.cycles.disassembly import Instruction

#: Cycles of instructions that were executed one after the other, and of the branch from the last of them to another,
#: if it was taken; the Instruction there is None where it isn't known.
Cycles = Callable[[Sequence[Instruction], bool, "Instruction | None"], int]

_LOADS = frozenset({"ldr", "ldrb", "ldrh", "ldrsb", "ldrsh", "ldrex", "ldrexb", "ldrexh"})
_STORES = frozenset({"str", "strb", "strh", "strex", "strexb", "strexh"})
_PAIRS = frozenset({"ldrd", "strd"})
_LISTS = frozenset(
    {"ldmia", "ldmdb", "stmia", "stmdb", "push", "pop", "vldmia", "vldmdb", "vstmia", "vstmdb", "vpush", "vpop"}
)
_FLOAT_ACCESSES = frozenset({"vldr", "vstr"})
_ACCESSES = _LOADS | _STORES | _PAIRS | _LISTS | _FLOAT_ACCESSES
_NO_RESULT = frozenset({"cmp", "cmn", "tst", "teq", "nop", "b", "bl", "bx", "blx", "cbz", "cbnz", "tbb", "tbh", "bkpt"})
_ACCUMULATE = frozenset({"vmla", "vmls", "vnmla", "vnmls", "vfma", "vfms", "vfnma", "vfnms"})
_FLOAT_ARITHMETIC = _ACCUMULATE | {"vadd", "vsub", "vmul", "vnmul", "vdiv", "vsqrt", "vcvt", "vcvtr", "vcvtb", "vcvtt"}
_FLOAT_CYCLES = {"vdiv": 14, "vsqrt": 14} | dict.fromkeys(_ACCUMULATE, 3)


@dataclass(frozen=True)
class Timing:
    """The cycles of a core.

    Attributes:
        source: the documents that they are of.
        cycles: see Cycles.
    """

    source: str
    cycles: Cycles


def _crosses_word(target: Instruction | None) -> bool:
    return target is not None and target.size == 4 and target.address % 4 == 2


def _consumed(name: str, registers: Sequence[str]) -> Sequence[str]:
    """Returns the registers whose values a floating-point instruction needs at its start."""
    if name in _ACCUMULATE or name in _FLOAT_ARITHMETIC or name in ("vldr", "vabs", "vneg"):
        return registers[1:]
    return registers


def _armv7_m(slow: dict[str, int]) -> Cycles:
    """Returns the cycles of Cortex-M3 and M4: three stages, without branch prediction.

    Args:
        slow: cycles of integer instructions that take more than one.
    """

    def refill(last: Instruction, target: Instruction | None) -> int:
        by_register = last.name in ("bx", "blx") and last.text != "lr"
        early = (last.name[0] == "b" or last.name in ("cbz", "cbnz")) and not by_register
        return 1 + _crosses_word(target) if early else 3

    def alone(instruction: Instruction, before: Instruction | None) -> int:
        """Returns the cycles without stalls."""
        name = instruction.name
        follows_load = (
            before is not None and before.name in _LOADS and before.registers[0] not in instruction.address_registers
        )
        if name in _LOADS:
            return 1 if follows_load else 2
        if name in _STORES:
            return 2 if len(instruction.address_registers) > 1 and not follows_load else 1
        if name in _PAIRS:
            return 3
        if name in _LISTS:
            return 1 + instruction.listed
        if name in _FLOAT_ACCESSES:
            return 3 if instruction.text.startswith("d") else 2
        if name == "vmov":
            core = any(register[0] not in "sd" or register in ("sl", "sp") for register in instruction.registers)
            return 2 if core else 1
        if name in ("tbb", "tbh"):
            return 3
        if name.startswith("it") and not name.strip("ite"):
            return 0 if before is not None and before.size == 2 else 1
        return slow.get(name, _FLOAT_CYCLES.get(name, 1))

    def stall(instruction: Instruction, before: Instruction) -> int:
        name = instruction.name
        if before.name in _FLOAT_ARITHMETIC:
            consumed = _consumed(name, instruction.registers) if name.startswith("v") else ()
            return int(before.registers[0] in consumed)
        computes = before.name not in _NO_RESULT | _ACCESSES and before.name[0] != "v"
        waits = (
            computes and name in _ACCESSES and before.registers and before.registers[0] in instruction.address_registers
        )
        return int(bool(waits))

    def cycles(block: Sequence[Instruction], taken: bool, target: Instruction | None) -> int:
        total = refill(block[-1], target) if taken else 0
        before = None
        for instruction in block:
            total += alone(instruction, before) + (stall(instruction, before) if before else 0)
            before = instruction
        return total

    return cycles


def _armv6_m(branch: int, call: int, returns: int) -> Cycles:
    """Returns the cycles of Cortex-M0 and M0+, with the multiplier that takes one cycle.

    Args:
        branch: cycles of a branch that is taken.
        call: of a BL.
        returns: that a POP of the program counter takes more than one of any other register.
    """

    def alone(instruction: Instruction) -> int:
        if instruction.name in _LOADS | _STORES:
            return 2
        if instruction.name in _LISTS:
            return 1 + instruction.listed
        return {"mrs": 3, "msr": 3, "dsb": 3, "dmb": 3, "isb": 3}.get(instruction.name, 1)

    def cycles(block: Sequence[Instruction], taken: bool, _target: Instruction | None) -> int:
        last = block[-1].name
        extra = returns if last == "pop" else call - 1 if last == "bl" else branch - 1
        return sum(map(alone, block)) + (extra if taken else 0)

    return cycles


_DIVIDE = {"sdiv": 12, "udiv": 12}
_M4 = Timing("Cortex-M4 Technical Reference Manual (DDI 0439), 3.3.1, 3.3.2 and 7.2.3", _armv7_m(_DIVIDE))
_TIMINGS = {
    "cortex-m0": Timing("Cortex-M0 Technical Reference Manual (DDI 0432), 3.3", _armv6_m(3, 4, 3)),
    "cortex-m0plus": Timing("Cortex-M0+ Technical Reference Manual (DDI 0484), 3.3", _armv6_m(2, 3, 2)),
    "cortex-m3": Timing(
        "Cortex-M3 Technical Reference Manual (DDI 0337), 3.3.1 and 3.3.2",
        _armv7_m(_DIVIDE | {"mla": 2, "mls": 2, "smull": 5, "umull": 5, "smlal": 7, "umlal": 7}),
    ),
    "cortex-m4": _M4,
    "cortex-m4-nofp": _M4,
}


def timing_of(core: str) -> Timing | None:
    """Returns the cycles of a core, by its name in board.json; None if its maker doesn't document them."""
    return _TIMINGS.get(core)
