#include "firmware/board.h"

#include "firmware/cortex_m/core.h"

/// nRF51 Series Reference Manual (version 3.0), section 18, "Timer/counter": timer 0 counts the
/// 16 MHz clock in 32 bits.
#define TIMER0 0x40008000u
#define TIMER_TASKS_START CORTEX_M_REGISTER(TIMER0 + 0x000)
#define TIMER_TASKS_CAPTURE0 CORTEX_M_REGISTER(TIMER0 + 0x040)
#define TIMER_BITMODE CORTEX_M_REGISTER(TIMER0 + 0x508)
#define TIMER_PRESCALER CORTEX_M_REGISTER(TIMER0 + 0x510)
#define TIMER_CC0 CORTEX_M_REGISTER(TIMER0 + 0x540)

/// Section 29, "Universal Asynchronous Receiver/Transmitter".
#define UART0 0x40002000u
#define UART_TASKS_STARTRX CORTEX_M_REGISTER(UART0 + 0x000)
#define UART_TASKS_STARTTX CORTEX_M_REGISTER(UART0 + 0x008)
#define UART_EVENTS_RXDRDY CORTEX_M_REGISTER(UART0 + 0x108)
#define UART_EVENTS_TXDRDY CORTEX_M_REGISTER(UART0 + 0x11C)
#define UART_ENABLE CORTEX_M_REGISTER(UART0 + 0x500)
#define UART_PSELTXD CORTEX_M_REGISTER(UART0 + 0x50C)
#define UART_PSELRXD CORTEX_M_REGISTER(UART0 + 0x514)
#define UART_RXD CORTEX_M_REGISTER(UART0 + 0x518)
#define UART_TXD CORTEX_M_REGISTER(UART0 + 0x51C)
#define UART_BAUDRATE CORTEX_M_REGISTER(UART0 + 0x524)

enum { kClockHz = 16000000 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 62.5 ns.
const BoardClock board_clock = {kClockHz, 125, 128, "instructions"};

void board_init(void) {
  TIMER_BITMODE = 3; // 32 bits
  TIMER_PRESCALER = 0;
  TIMER_TASKS_START = 1;
#if ET_LOG_ENABLED
  // The micro:bit's pins for its USB console.
  UART_PSELTXD = 24;
  UART_PSELRXD = 25;
  UART_BAUDRATE = 0x01D7E000; // 115200
  UART_ENABLE = 4;
  UART_TASKS_STARTTX = 1;
  UART_TASKS_STARTRX = 1;
#endif
}

uint32_t board_ticks(void) {
  TIMER_TASKS_CAPTURE0 = 1;
  return TIMER_CC0;
}

void board_console_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    UART_EVENTS_TXDRDY = 0;
    UART_TXD = (uint8_t)data[i];
    while (UART_EVENTS_TXDRDY == 0) {
    }
  }
}

int board_console_read(void) {
  while (UART_EVENTS_RXDRDY == 0) {
  }
  UART_EVENTS_RXDRDY = 0;
  return (int)(UART_RXD & 0xFF);
}
