#pragma once

#include <stddef.h>

#include "firmware/board.h"
#include "firmware/cortex_m/core.h"

/// Registers that the nRF51 and the nRF52 have in common, and the UART. Source: nRF51 Series
/// Reference Manual (version 3.0), "UART"; nRF52840 Product Specification, "UART". It is the one
/// without DMA, so nothing but the core reads or writes memory.
#define NRF_UART0 0x40002000u
#define NRF_UART_TASKS_STARTRX CORTEX_M_REGISTER(NRF_UART0 + 0x000)
#define NRF_UART_TASKS_STARTTX CORTEX_M_REGISTER(NRF_UART0 + 0x008)
#define NRF_UART_EVENTS_RXDRDY CORTEX_M_REGISTER(NRF_UART0 + 0x108)
#define NRF_UART_EVENTS_TXDRDY CORTEX_M_REGISTER(NRF_UART0 + 0x11C)
#define NRF_UART_INTENSET CORTEX_M_REGISTER(NRF_UART0 + 0x304) // RXDRDY 2
#define NRF_UART_ENABLE CORTEX_M_REGISTER(NRF_UART0 + 0x500)
#define NRF_UART_PSELTXD CORTEX_M_REGISTER(NRF_UART0 + 0x50C)
#define NRF_UART_PSELRXD CORTEX_M_REGISTER(NRF_UART0 + 0x514)
#define NRF_UART_RXD CORTEX_M_REGISTER(NRF_UART0 + 0x518)
#define NRF_UART_TXD CORTEX_M_REGISTER(NRF_UART0 + 0x51C)
#define NRF_UART_BAUDRATE CORTEX_M_REGISTER(NRF_UART0 + 0x524)

/// 115200 8N1 on two pins: bits 4:0 the pin, 5 the port.
static inline void nrf_uart_start(uint32_t tx, uint32_t rx) {
  NRF_UART_PSELTXD = tx;
  NRF_UART_PSELRXD = rx;
  NRF_UART_BAUDRATE = 0x01D7E000;
  NRF_UART_ENABLE = 4;
  NRF_UART_TASKS_STARTTX = 1;
  NRF_UART_TASKS_STARTRX = 1;
}

static inline void nrf_uart_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    NRF_UART_EVENTS_TXDRDY = 0;
    NRF_UART_TXD = (uint8_t)data[i];
    while (NRF_UART_EVENTS_TXDRDY == 0) {
      board_waits();
    }
  }
}

/// The byte that has arrived: the event is cleared first, for reading makes room for the next.
static inline int nrf_uart_take(void) {
  NRF_UART_EVENTS_RXDRDY = 0;
  return (int)(NRF_UART_RXD & 0xFF);
}
