#include "firmware/board.h"
#include "firmware/cortex_m/core.h"

extern int main(void);
extern void (*const __init_array_start[])(void);
extern void (*const __init_array_end[])(void);

void cortex_m_reset(void);
void cortex_m_start(void);
void cortex_m_fault(void);
/// An application or driver that expects one of these defines it, by CMSIS' name. Otherwise it is
/// the fault handler, by the linker script.
__attribute__((weak)) void NMI_Handler(void);
__attribute__((weak)) void SVC_Handler(void);
__attribute__((weak)) void DebugMon_Handler(void);
__attribute__((weak)) void PendSV_Handler(void);
__attribute__((weak)) void SysTick_Handler(void);

/// The first words of the image: initial stack pointer, reset, and the 14 further exceptions of the
/// core (DDI 0403E B1.5.3). The fault handler tells those that nobody expects apart by IPSR. An
/// application that enables interrupts of the chip defines `.vectors.board`, which the linker
/// script places right after.
__attribute__((section(".vectors"), used)) static void (*const kVectors[])(void) = {
    (void (*)(void))__stack_end,
    cortex_m_reset,
    NMI_Handler,
    cortex_m_fault, // HardFault
    cortex_m_fault, // MemManage
    cortex_m_fault, // BusFault
    cortex_m_fault, // UsageFault
    cortex_m_fault, // SecureFault (Armv8-M)
    cortex_m_fault,
    cortex_m_fault,
    cortex_m_fault,
    SVC_Handler,
    DebugMon_Handler,
    cortex_m_fault,
    PendSV_Handler,
    SysTick_Handler,
};

static void run(void) {
  // The barriers keep the compiler from calling memcpy() and memset(), which small images have no
  // other use for.
  for (uint32_t *to = __data_start, *from = __data_load; to < __data_end;) {
    *to++ = *from++;
    __asm volatile("" ::: "memory");
  }
  for (uint32_t* to = __bss_start; to < __bss_end;) {
    *to++ = 0;
    __asm volatile("" ::: "memory");
  }
  board_init();
  for (void (*const* constructor)(void) = __init_array_start; constructor < __init_array_end;
       ++constructor) {
    (*constructor)();
  }
  // Inlined here, a fault in main() would have this function's name.
  int (*entry)(void) = main;
  __asm volatile("" : "+r"(entry));
  board_exit(entry());
}

/// The rest of a reset, once there is a stack.
__attribute__((used)) void cortex_m_start(void) {
  SCB_VTOR = (uint32_t)kVectors;
#ifdef CORTEX_M_MAINLINE_V8
  // A stack overflow is then a UsageFault (STKOF) at the push that causes it.
  __asm volatile("msr msplim, %0" : : "r"(__stack_start));
#endif
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  SCB_CPACR |= 0xFu << 20;
  __asm volatile("dsb\n isb");
#endif
  cortex_m_paint_stack();
  run();
}

// A debugger, a boot loader or an emulator may have started the image without a reset: we set the
// stack pointer, before any function uses it, and the vector table ourselves.
__attribute__((naked)) void cortex_m_reset(void) {
  __asm volatile(
      "ldr r0, =__stack_end\n"
      "msr msp, r0\n"
#if __ARM_ARCH >= 7
      "b.w cortex_m_start\n");
#else
      // Only this branch reaches as far.
      "bl cortex_m_start\n");
#endif
}
