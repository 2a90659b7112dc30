#pragma once

#include <stdint.h>

/// Registers of the Cortex-M system control space, common to Armv7-M and Armv8-M Mainline.
/// Addresses and bits: Armv7-M Architecture Reference Manual (DDI 0403E), section B3.2, and Armv8-M
/// Architecture Reference Manual (DDI 0553B), section D1.2.

#define CORTEX_M_REGISTER(address) (*(volatile uint32_t*)(address))

/// DDI 0403E B3.2.5, vector table offset register.
#define SCB_VTOR CORTEX_M_REGISTER(0xE000ED08u)
/// DDI 0403E B3.2.6, application interrupt and reset control register; writes need the key in the
/// upper half.
#define SCB_AIRCR CORTEX_M_REGISTER(0xE000ED0Cu)
/// DDI 0403E B3.2.7, system control register.
#define SCB_SCR CORTEX_M_REGISTER(0xE000ED10u)
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

/// Addresses that the linker script (tools/linker_script) defines.
extern uint32_t __stack_start[], __stack_end[];
extern uint32_t __data_start[], __data_end[], __data_load[];
extern uint32_t __bss_start[], __bss_end[];

/// Fills the unused part of the stack with the pattern that stack_used() looks for (stack.c).
void cortex_m_paint_stack(void);
