#include "firmware/chips/nrf/nrf.h"

/// nRF51 Series Reference Manual (version 3.0), section 18, "Timer/counter": timer 0 counts the
/// 16 MHz clock in 32 bits.
#define TIMER0 0x40008000u
#define TIMER_TASKS_START CORTEX_M_REGISTER(TIMER0 + 0x000)
#define TIMER_TASKS_CAPTURE0 CORTEX_M_REGISTER(TIMER0 + 0x040)
#define TIMER_BITMODE CORTEX_M_REGISTER(TIMER0 + 0x508)
#define TIMER_PRESCALER CORTEX_M_REGISTER(TIMER0 + 0x510)
#define TIMER_CC0 CORTEX_M_REGISTER(TIMER0 + 0x540)

enum { kClockHz = 16000000 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 62.5 ns.
const BoardClock board_clock = {kClockHz, 125, 128, "instructions"};

void board_init(void) {
  TIMER_BITMODE = 3; // 32 bits
  TIMER_PRESCALER = 0;
  TIMER_TASKS_START = 1;
#if ET_LOG_ENABLED
  // The micro:bit's pins for its USB console.
  nrf_uart_start(24, 25);
#endif
}

uint32_t board_ticks(void) {
  TIMER_TASKS_CAPTURE0 = 1;
  return TIMER_CC0;
}

void board_console_write(const char* data, size_t size) {
  nrf_uart_write(data, size);
}

int board_console_read(void) {
  while (NRF_UART_EVENTS_RXDRDY == 0) {
  }
  return nrf_uart_take();
}
