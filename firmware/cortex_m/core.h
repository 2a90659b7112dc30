#pragma once

#include <stdint.h>

/// Registers of the Cortex-M system control space. Addresses and bits: Armv7-M Architecture
/// Reference Manual (DDI 0403E), section B3.2, and Armv8-M Architecture Reference Manual
/// (DDI 0553B), section D1.2. Armv6-M (DDI 0419E, section B3.2) and Armv8-M Baseline have fewer of
/// them: SCB_VTOR may be missing; it then reads as zero and ignores writes.

#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define CORTEX_M_MAINLINE_V8
#endif
/// Armv7-M and Armv8-M Mainline tell faults apart: the four registers below exist. The others
/// have HardFault alone.
#if defined(CORTEX_M_MAINLINE_V8) || __ARM_ARCH == 7
#define CORTEX_M_HAS_FAULT_STATUS
#endif

#define CORTEX_M_REGISTER(address) (*(volatile uint32_t*)(address))

/// DDI 0403E B3.2.5, vector table offset register.
#define SCB_VTOR CORTEX_M_REGISTER(0xE000ED08u)
/// DDI 0403E B3.2.6, application interrupt and reset control: VECTKEY 31:16, SYSRESETREQ 2.
#define SCB_AIRCR CORTEX_M_REGISTER(0xE000ED0Cu)
/// DDI 0403E B3.2.15, configurable fault status (MemManage, BusFault and UsageFault in one word).
#define SCB_CFSR CORTEX_M_REGISTER(0xE000ED28u)
/// DDI 0403E B3.2.16, HardFault status.
#define SCB_HFSR CORTEX_M_REGISTER(0xE000ED2Cu)
/// DDI 0403E B3.2.17 and B3.2.18, addresses of MemManage fault and BusFault.
#define SCB_MMFAR CORTEX_M_REGISTER(0xE000ED34u)
#define SCB_BFAR CORTEX_M_REGISTER(0xE000ED38u)
/// DDI 0403E B3.2.20, coprocessor access control: CP10 and CP11 are the FPU.
#define SCB_CPACR CORTEX_M_REGISTER(0xE000ED88u)

/// DDI 0403E C1.6.5, debug exception and monitor control: TRCENA (bit 24) powers the DWT.
#define DEMCR CORTEX_M_REGISTER(0xE000EDFCu)
/// DDI 0403E C1.8.7 and C1.8.8: DWT control (bit 0 starts the cycle counter) and the counter.
#define DWT_CTRL CORTEX_M_REGISTER(0xE0001000u)
#define DWT_CYCCNT CORTEX_M_REGISTER(0xE0001004u)

/// Starts the counter of core cycles at 0; a debugger may have left it running.
static inline void cortex_m_start_cycle_counter(void) {
  DEMCR |= 1u << 24;
  DWT_CYCCNT = 0;
  DWT_CTRL |= 1;
}

/// Resets the chip.
__attribute__((noreturn)) static inline void cortex_m_reset_system(void) {
  SCB_AIRCR = 0x05FA0004u;
  for (;;) {
  }
}

/// Core cycles, modulo 2^32. A debugger that lets go of the core turns the counter off: from the
/// next call on it runs again.
static inline uint32_t cortex_m_cycles(void) {
  if ((DEMCR & 1u << 24) == 0) {
    cortex_m_start_cycle_counter();
  }
  return DWT_CYCCNT;
}

/// DDI 0403E B3.3, DDI 0419E B3.3: SysTick, 24 bits that count down. CSR: ENABLE 0, CLKSOURCE 2.
#define SYST_CSR CORTEX_M_REGISTER(0xE000E010u)
#define SYST_RVR CORTEX_M_REGISTER(0xE000E014u)
#define SYST_CVR CORTEX_M_REGISTER(0xE000E018u)

/// DDI 0403E B3.4: interrupt set-enable, clear-enable and clear-pending registers, 32 interrupts
/// each.
#define NVIC_ISER(index) CORTEX_M_REGISTER(0xE000E100u + 4 * (index))
#define NVIC_ICER(index) CORTEX_M_REGISTER(0xE000E180u + 4 * (index))
#define NVIC_ICPR(index) CORTEX_M_REGISTER(0xE000E280u + 4 * (index))

/// Sleeps until one of `interrupts` (bit n: interrupt n of the chip) is pending, at once if one is;
/// none is taken. DDI 0403E B1.5.19: WFI ends when an interrupt gets pending, also one that PRIMASK
/// keeps from being taken.
static inline void cortex_m_wait_for_interrupt(uint64_t interrupts) {
  // Masked before they are enabled: there is no handler for them.
  __asm volatile("cpsid i" ::: "memory");
  for (unsigned i = 0; i < 2; ++i) {
    NVIC_ISER(i) = (uint32_t)(interrupts >> 32 * i);
  }
  __asm volatile("dsb\n wfi" ::: "memory");
  for (unsigned i = 0; i < 2; ++i) {
    NVIC_ICER(i) = (uint32_t)(interrupts >> 32 * i);
    NVIC_ICPR(i) = (uint32_t)(interrupts >> 32 * i);
  }
  __asm volatile("cpsie i" ::: "memory");
}

/// Addresses that the linker script (tools/pipeline/linker_script) defines.
extern uint32_t __stack_start[], __stack_end[];
extern uint32_t __data_start[], __data_end[], __data_load[];
extern uint32_t __bss_start[], __bss_end[];

/// Fills the unused part of the stack with the pattern that stack_used() looks for (stack.c).
void cortex_m_paint_stack(void);
