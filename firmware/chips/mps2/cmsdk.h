#pragma once

#include <stddef.h>
#include <stdint.h>

#include "firmware/cortex_m/core.h"

/// Peripherals of the Cortex-M System Design Kit, which the MPS2 images share. Registers: Cortex-M
/// System Design Kit Technical Reference Manual (DDI 0479D), section 4.2 (APB timer) and 4.3 (APB
/// UART).

/// Starts the timer at `base` counting down through all 32 bits.
static inline void cmsdk_timer_start(uint32_t base) {
  CORTEX_M_REGISTER(base + 0x8) = 0xFFFFFFFFu; // RELOAD
  CORTEX_M_REGISTER(base + 0x4) = 0xFFFFFFFFu; // VALUE
  CORTEX_M_REGISTER(base + 0x0) = 1;           // CTRL: enable
}

/// Ticks since cmsdk_timer_start(), modulo 2^32.
static inline uint32_t cmsdk_timer_ticks(uint32_t base) {
  return 0xFFFFFFFFu - CORTEX_M_REGISTER(base + 0x4);
}

static inline void cmsdk_uart_start(uint32_t base, uint32_t clock_hz, uint32_t baud) {
  CORTEX_M_REGISTER(base + 0x10) = clock_hz / baud; // BAUDDIV
  CORTEX_M_REGISTER(base + 0x8) = 3;                // CTRL: transmitter and receiver on
}

static inline void cmsdk_uart_write(uint32_t base, const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    while (CORTEX_M_REGISTER(base + 0x4) & 1) { // STATE: transmit buffer full
    }
    CORTEX_M_REGISTER(base + 0x0) = (uint8_t)data[i];
  }
}

static inline int cmsdk_uart_read(uint32_t base) {
  while (!(CORTEX_M_REGISTER(base + 0x4) & 2)) { // STATE: receive buffer full
  }
  return (int)(CORTEX_M_REGISTER(base + 0x0) & 0xFF);
}
