"""Measures the stack that a model's `run` needs: an emulated core runs the model's self-test, and counts."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.board.board import Board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.pipeline.package.archive import Toolchain
from tools.quiet.console import UserError

# Start-up code, the self-test's call of `run` between painting the stack and looking where paint is left, and the
# result by semihosting (SYS_WRITE0, and SYS_EXIT_EXTENDED).
_SOURCE = """
#include <stdint.h>
#include "@_selftest.h"

extern uint32_t data_load[], data_begin[], data_end[], bss_end[], stack_end[];
extern torch_fusion_status __real_@_run(@_model_t* model);
torch_fusion_status __wrap_@_run(@_model_t* model);
void start(void);
void begin(void);

static @_model_t model;
static uint32_t deepest;

static void* stack_pointer(void) {
  void* pointer;
  __asm__ volatile("mov %0, sp" : "=r"(pointer));
  return pointer;
}

torch_fusion_status __wrap_@_run(@_model_t* to_run) {
  volatile uint32_t* const top = stack_pointer();
  volatile uint32_t* at;
  for (at = bss_end; at < top; ++at) {
    *at = 0xC5C5C5C5u;
  }
  const torch_fusion_status status = __real_@_run(to_run);
  for (at = bss_end; at < top && *at == 0xC5C5C5C5u; ++at) {
  }
  const uint32_t used = (uint32_t)((uintptr_t)top - (uintptr_t)at);
  deepest = used > deepest ? used : deepest;
  return status;
}

static void semihosting(uint32_t operation, const void* argument) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

__attribute__((naked)) void start(void) {
  // An emulator may begin here without a look at the vectors.
  __asm__ volatile("ldr r0, =stack_end; mov sp, r0; bl begin; .ltorg");
}

void begin(void) {
  // The coprocessor access control register enables FPU and vectors; cores without it ignore that.
  *(volatile uint32_t*)0xE000ED88u |= 0xFu << 20;
  for (uint32_t *to = data_begin, *from = data_load; to < data_end; ++to, ++from) {
    *to = *from;
  }
  for (volatile uint32_t* at = data_end; at < bss_end; ++at) {
    *at = 0;
  }
  const int result = @_selftest(&model);
  char text[] = "stack 0000000000\\n";
  for (uint32_t i = 15, rest = deepest; i > 5; --i, rest /= 10) {
    text[i] = (char)('0' + rest % 10);
  }
  semihosting(0x04, result == 0 ? text : "selftest failed\\n");
  const uint32_t exit[] = {0x20026, 0};
  semihosting(0x20, exit);
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) static const void* const vectors[] = {stack_end, (const void*)start};
"""

_SCRIPT = """
MEMORY {{
  flash : ORIGIN = {flash.origin}, LENGTH = {flash.length}
  ram : ORIGIN = {ram.origin}, LENGTH = {ram.length}
}}
ENTRY(start)
SECTIONS {{
  .text : {{ KEEP(*(.vectors)) *(.text* .rodata*) }} > flash
  .ARM.exidx : {{ *(.ARM.exidx*) }} > flash
  .data : ALIGN(8) {{ data_begin = .; *(.data*) . = ALIGN(8); data_end = .; }} > ram AT > flash
  data_load = LOADADDR(.data);
  .bss (NOLOAD) : ALIGN(8) {{ *(.bss* COMMON) . = ALIGN(8); bss_end = .; }} > ram
  stack_end = ORIGIN(ram) + LENGTH(ram);
}}
"""

# A model that runs longer is not measured; seconds.
_TIMEOUT = 60


def choose_board(boards: Sequence[Board], core: str) -> Board | None:
    """Returns the emulated board with a core, and without an NPU; None if there is none."""
    return next((board for board in boards if board.core == core and board.emulator and board.npu is None), None)


def measure_stack(
    toolchain: Toolchain, folder: Path, library: Path, model: str, board: Board, qemu: Path
) -> int | None:
    """Returns the bytes of stack that `run` of a model needs on its self-test's examples.

    None if the model doesn't fit the board, or takes too long.

    Raises:
        UserError: the program can't be compiled, or its self-test fails.
    """
    assert board.emulator is not None
    with tempfile.TemporaryDirectory() as work:
        source, code, script, program = (Path(work) / name for name in ("stack.c", "stack.o", "stack.ld", "stack.elf"))
        source.write_text(_SOURCE.replace("@", model), encoding="utf-8")
        script.write_text(_SCRIPT.format(flash=board.flash, ram=board.ram), encoding="utf-8")
        toolchain.compile(folder, source, code)
        link = [*toolchain.flags, "--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles", "-Wl,--gc-sections"]
        link += ["-Wl,--no-warnings", f"-Wl,--wrap={model}_run", "-T", str(script), str(code), str(library), "-lm"]
        try:
            toolchain.run(toolchain.gcc, *link, "-o", str(program))
        except UserError as error:
            if "overflowed by" in str(error) or "will not fit" in str(error):
                return None
            raise
        command: list[str | Path] = [qemu.absolute(), *board.emulator.options(ElfImage(program).entry)]
        command += ["-display", "none", "-monitor", "none", "-serial", "none"]
        command += ["-semihosting-config", "enable=on,target=native", "-kernel", program]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None
    found = re.search(r"stack (\d+)", done.stdout + done.stderr)
    if found is None:
        raise UserError(
            f"the self-test of {model} on an emulated {board.core} ended without a result: {done.stdout}{done.stderr}"
        )
    return int(found[1])
