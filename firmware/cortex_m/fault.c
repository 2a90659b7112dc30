#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/cortex_m/core.h"
#include "firmware/host.h"

/// The core pushes this on an exception (DDI 0403E B1.5.6).
typedef struct {
  uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
} ExceptionFrame;

void cortex_m_fault(void);

/// The handler's assembly keeps the registers here that the core does not push.
struct {
  /// The stack pointer, hence the ExceptionFrame.
  uint32_t sp;
  uint32_t r4_to_r11[8];
} cortex_m_fault_state __attribute__((used));

#if ET_LOG_ENABLED

static void write_register(const char* name, uint32_t value) {
  console_text(name);
  console_hex(value);
}

#ifdef CORTEX_M_HAS_FAULT_STATUS

typedef struct {
  uint8_t bit;
  const char* text;
} Cause;

/// DDI 0403E B3.2.15; STKOF: DDI 0553B D1.2.267 (Armv8-M).
static const Cause kCauses[] = {
    {0, "MemManage: instruction fetch from an address that may not be executed"},
    {1, "MemManage: data access to an address that may not be accessed"},
    {3, "MemManage: on return from an exception"},
    {4, "MemManage: stack overflow or bad stack pointer on entry to an exception"},
    {5, "MemManage: while the FPU state was saved"},
    {8, "BusFault: instruction fetch from an address where nothing is"},
    {9, "BusFault: data access to an address where nothing is"},
    {10, "BusFault: imprecise data access, some instructions before the pc"},
    {11, "BusFault: on return from an exception"},
    {12, "BusFault: stack overflow or bad stack pointer on entry to an exception"},
    {13, "BusFault: while the FPU state was saved"},
    {16, "UsageFault: undefined instruction"},
    {17, "UsageFault: branch to an address without the Thumb bit"},
    {18, "UsageFault: invalid return from an exception"},
    {19, "UsageFault: coprocessor or FPU instruction while it is off"},
    {20, "UsageFault: stack overflow"},
    {24, "UsageFault: unaligned access by an instruction that needs alignment"},
    {25, "UsageFault: division by zero"},
};

static void write_causes(void) {
  const uint32_t cfsr = SCB_CFSR;
  for (size_t i = 0; i < sizeof(kCauses) / sizeof(kCauses[0]); ++i) {
    if (cfsr >> kCauses[i].bit & 1) {
      console_text("\n  ");
      console_text(kCauses[i].text);
    }
  }
  // MMARVALID and BFARVALID: the address registers hold the fault's address.
  if (cfsr & 1u << 7) {
    write_register(", address ", SCB_MMFAR);
  }
  if (cfsr & 1u << 15) {
    write_register(", address ", SCB_BFAR);
  }
  write_register("\n  cfsr ", cfsr);
  write_register(" hfsr ", SCB_HFSR);
}

#else

/// DDI 0419E B1.5.4: all that can be told is that it was a fault.
static void write_causes(void) {
  console_text(
      "\n  HardFault: an address where nothing is, an unaligned access, an undefined "
      "instruction or a branch to an address without the Thumb bit");
}

#endif // CORTEX_M_HAS_FAULT_STATUS

static void write_fault(void) {
  uint32_t exception;
  __asm volatile("mrs %0, ipsr" : "=r"(exception));
  console_text("\nFAULT: exception ");
  console_unsigned(exception);
  write_causes();
  const uint32_t sp = cortex_m_fault_state.sp;
  if (sp < (uint32_t)__stack_start || sp + sizeof(ExceptionFrame) > (uint32_t)__stack_end) {
    // The core could not push its registers: what was there is lost.
    write_register("\n  stack pointer outside the stack: ", sp);
  } else {
    const ExceptionFrame* const frame = (const ExceptionFrame*)sp;
    write_register("\n  pc ", frame->pc);
    write_register(" lr ", frame->lr);
    write_register(" sp ", sp + sizeof(*frame));
    write_register(" xpsr ", frame->xpsr);
    write_register("\n  r0 ", frame->r0);
    write_register(" r1 ", frame->r1);
    write_register(" r2 ", frame->r2);
    write_register(" r3 ", frame->r3);
    write_register(" r12 ", frame->r12);
  }
  for (size_t i = 0; i < 8; ++i) {
    console_text(i % 4 == 0 ? "\n  r" : " r");
    console_unsigned(i + 4);
    write_register(" ", cortex_m_fault_state.r4_to_r11[i]);
  }
  console_text("\n");
}

#endif // ET_LOG_ENABLED

/// Called with enough of a stack, see below.
__attribute__((used, noreturn)) void cortex_m_fault_end(void) {
#if ET_LOG_ENABLED
  write_fault();
#endif
  board_exit(kExitFault);
}

/// Keeps the registers. If less than 512 bytes of the stack are left, as after an overflow, it
/// starts over at the top, far from the exception frame; else it goes on below the frame. All code
/// runs on the main stack.
__attribute__((naked)) void cortex_m_fault(void) {
  __asm volatile(
#ifdef CORTEX_M_MAINLINE_V8
      "  movs r0, #0\n"
      "  msr msplim, r0\n"
#endif
      "  ldr r0, =cortex_m_fault_state\n"
      "  mov r1, sp\n"
#ifdef CORTEX_M_HAS_FAULT_STATUS
      "  stmia r0, {r1, r4-r11}\n"
#else
      // No instruction stores the upper registers.
      "  stmia r0!, {r1, r4-r7}\n"
      "  mov r4, r8\n"
      "  mov r5, r9\n"
      "  mov r6, r10\n"
      "  mov r7, r11\n"
      "  stmia r0!, {r4-r7}\n"
#endif
      "  ldr r2, =__stack_start + 512\n"
      "  ldr r3, =__stack_end\n"
      "  cmp r1, r2\n"
      "  blo 1f\n"
      "  cmp r1, r3\n"
      "  bls 2f\n"
      "1: mov sp, r3\n"
#if __ARM_ARCH >= 7
      "2: b cortex_m_fault_end\n"
#else
      // Only this branch reaches as far.
      "2: bl cortex_m_fault_end\n"
#endif
      "  .ltorg\n");
}
