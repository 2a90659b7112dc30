/// An application with interrupts of its own: those of the core by CMSIS' names, and one of the
/// chip.
#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/cortex_m/core.h"
#include "firmware/host.h"

static volatile unsigned ticks;

extern "C" void SVC_Handler() {
  console_text("service\n");
}

extern "C" void PendSV_Handler() {
  console_text("pended\n");
}

extern "C" void SysTick_Handler() {
  console_text("tick\n");
  ticks = ticks + 1;
  if (ticks == 2) {
    SYST_CSR = 0;
  }
}

static void chip_handler() {
  console_text("chip\n");
}

__attribute__((section(".vectors.board"), used)) static void (*const kInterrupts[])() = {
    nullptr,
    nullptr,
    nullptr,
    chip_handler,
};

int main() {
  __asm volatile("svc 0" ::: "memory");
  NVIC_ISER(0) = 1u << 3;
  // Interrupt set-pending register, and PENDSVSET of the interrupt control and state register
  // (DDI 0403E B3.4.5 and B3.2.4).
  CORTEX_M_REGISTER(0xE000E200u) = 1u << 3;
  __asm volatile("dsb\n isb" ::: "memory");
  CORTEX_M_REGISTER(0xE000ED04u) = 1u << 28;
  __asm volatile("dsb\n isb" ::: "memory");
  SYST_RVR = 99999;
  SYST_CVR = 0;
  // ENABLE, TICKINT and CLKSOURCE.
  SYST_CSR = 7;
  while (ticks < 2) {
    __asm volatile("wfi" ::: "memory");
  }
  console_text("PASS\n");
  return kExitPass;
}
