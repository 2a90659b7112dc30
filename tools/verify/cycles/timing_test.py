"""Tests loops whose cycles were counted by hand, with the manuals' tables."""

import pytest

from tools.verify.cycles.disassembly import Instruction, parse_instruction, parse_listing
from tools.verify.cycles.timing import timing_of

# The size of all of these instructions, unless their mnemonic says `.n`.
_WIDE = 4

# The cycles of Cortex-M4, and if there is a second number, of Cortex-M3.
_SEQUENCES = {
    # DDI 0439, 3.3.2: neighbours of loads and stores.
    "ldr r0, [r1]; ldr r1, [r2]": (3, 3),
    "ldr r0, [r1, r2]; str r0, [r3, #20]": (3, 3),
    "ldr r0, [r1, r2]; str r1, [r3, r2]": (3, 3),
    "ldr r0, [r1, r5]; ldr r1, [r2]; ldr r2, [r3, #4]": (4, 4),
    "ldr r0, [r1]; ldr r2, [r0]": (4, 4),
    "str r0, [r1], #4; ldr r2, [r3]": (3, 3),
    "str r0, [r1, r2]": (2, 2),
    "add r1, r2; ldr r0, [r1]": (4, 4),
    "add r1, r2; mov r3, r4; ldrbne r0, [r1]": (4, 4),
    "cmp r1, r2; ldr r0, [r1]": (3, 3),
    "ldr r0, [r1]; ldrd r2, r3, [r4]; ldr r5, [r6]": (7, 7),
    # 3.3.1.
    "push.n {r4, r5, r6, r7, lr}; stmia ip!, {r0, r1}": (9, 9),
    "cmp.n r0, r1; it.n eq; moveq r0, r1": (2, 2),
    "cmp r0, r1; it.n eq; moveq r0, r1": (3, 3),
    "mla r0, r1, r2, r3; smull r0, r1, r2, r3; smlal r0, r1, r2, r3": (3, 14),
    "sdiv r0, r1, r2": (12, 12),
    # 7.2.3: an operand of the next instruction, and an addend, which is needed later.
    "vmul.f32 s0, s1, s2; vadd.f32 s3, s4, s5": (2, None),
    "vmul.f32 s0, s1, s2; vadd.f32 s3, s4, s0": (3, None),
    "vmul.f32 s0, s1, s2; vfma.f32 s0, s4, s5": (4, None),
    "vmul.f32 s0, s1, s2; vstr s0, [r0]": (4, None),
    "vldr s0, [r0]; vldr d1, [r0, #8]; vldmia r0!, {s4-s7}; vldmia r1, {d4-d5}": (15, None),
    "vmov s0, r0; vmov.f32 s1, s2; vmls.f32 s3, s4, s5; vdiv.f32 s6, s7, s8": (20, None),
    # Half of the inner loop of int8 convolutions: two columns of four channels for two outputs each.
    "ldr sl, [r8], #4; ldrd lr, fp, [ip], #8; sxtb16 r9, sl; smlad r4, lr, sl, r4; smlad r3, lr, r9, r3; "
    "smlad r5, fp, sl, r5; smlad r2, fp, r9, r2": (10, None),
}

# Loops with the cycles of an iteration on Cortex-M4, M0+ and M0.
_LOOPS = {
    "subs.n r0, #1; bne.n 100": (3, 3, 4),
    "ldr.n r1, [r2, #0]; str.n r1, [r3, #0]; cmp.n r0, r3; bne.n d4": (6, 7, 8),
    "push.n {r4, lr}; bl 200": (5, 6, 7),
    "pop.n {r4, pc}": (6, 5, 6),
    "bx.n lr": (2, 2, 3),
    "blx.n r3": (4, 2, 3),
}


def test_an_instruction_without_operands_is_followed_by_another() -> None:
    found = parse_listing("  20e:\tbf00      \tnop\n  210:\tf8dd e00c \tldr.w\tlr, [sp, #12]\n")
    assert [(address, instruction.name) for address, instruction in found.items()] == [(0x20E, "nop"), (0x210, "ldr")]


def block(text: str) -> list[Instruction]:
    instructions, address = [], 0x100
    for line in text.split("; "):
        mnemonic, _, operands = line.partition(" ")
        size = 2 if mnemonic.endswith(".n") else _WIDE
        instructions.append(parse_instruction(address, size, mnemonic, operands))
        address += size
    return instructions


def cycles(core: str, text: str, taken: bool = False, target: Instruction | None = None) -> int:
    timing = timing_of(core)
    assert timing is not None
    return timing.cycles(block(text), taken, target)


@pytest.mark.parametrize("text", _SEQUENCES)
def test_sequences_take_what_the_manuals_say(text: str) -> None:
    m4, m3 = _SEQUENCES[text]
    assert cycles("cortex-m4", text) == m4
    if m3 is not None:
        assert cycles("cortex-m3", text) == m3


@pytest.mark.parametrize("text", _LOOPS)
def test_a_round_of_a_loop_has_its_branch(text: str) -> None:
    assert tuple(cycles(core, text, True) for core in ("cortex-m4", "cortex-m0plus", "cortex-m0")) == _LOOPS[text]


def test_a_branch_to_a_wide_instruction_across_words_takes_one_more() -> None:
    across, within, narrow = (Instruction(address, size, "add") for address, size in ((2, 4), (4, 4), (2, 2)))
    assert [cycles("cortex-m4", "b.n 2", True, target) for target in (across, within, narrow)] == [3, 2, 2]


def test_cores_whose_makers_document_no_cycles_have_none() -> None:
    assert [timing_of(core) for core in ("cortex-m7", "cortex-m33", "cortex-m55", "host")] == [None] * 4
