#pragma once

#include "firmware/cortex_m/core.h"

/// The caches of a Cortex-M7. Registers: Armv7-M Architecture Reference Manual (DDI 0403E), B2.2.7
/// and B3.2; Cortex-M7 Technical Reference Manual (DDI 0489), "Initializing and enabling the L1
/// caches". As no device but the core reads or writes memory that is cached, nothing else has to be
/// done: no line is ever cleaned or invalidated later.

/// CCR: IC 17, DC 16.
#define SCB_CCR CORTEX_M_REGISTER(0xE000ED14u)
/// CCSIDR of the cache that CSSELR chooses: ASSOCIATIVITY 12:3, NUMSETS 27:13, each less one.
#define SCB_CCSIDR CORTEX_M_REGISTER(0xE000ED80u)
#define SCB_CSSELR CORTEX_M_REGISTER(0xE000ED84u)
/// Invalidates all of the instruction cache; a line of the data cache, by way (31:30) and set
/// (13:5).
#define SCB_ICIALLU CORTEX_M_REGISTER(0xE000EF50u)
#define SCB_DCISW CORTEX_M_REGISTER(0xE000EF60u)

/// Turns both caches on, empty: after a reset their lines hold anything.
static inline void cortex_m_start_caches(void) {
  if ((SCB_CCR & (1u << 16 | 1u << 17)) != 0) {
    // They are on: a boot loader's, with lines that are not yet in memory.
    return;
  }
  __asm volatile("dsb\n isb" ::: "memory");
  SCB_ICIALLU = 0;
  SCB_CSSELR = 0; // the data cache of level 1
  __asm volatile("dsb" ::: "memory");
  const uint32_t size = SCB_CCSIDR;
  // Four ways, lines of 32 bytes.
  for (uint32_t set = 0; set <= (size >> 13 & 0x7FFF); ++set) {
    for (uint32_t way = 0; way <= (size >> 3 & 0x3FF); ++way) {
      SCB_DCISW = way << 30 | set << 5;
    }
  }
  __asm volatile("dsb" ::: "memory");
  SCB_CCR |= 1u << 16 | 1u << 17;
  __asm volatile("dsb\n isb" ::: "memory");
}
