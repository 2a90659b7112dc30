#include "firmware/board.h"

#include "firmware/cortex_m/core.h"

enum { kClockHz = 180000000 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

/// TODO(my_board): wait states of flash, then crystal, PLL and switch to kClockHz.
static void start_clock(void) {}

#if ET_LOG_ENABLED

/// TODO(my_board): clock, pins and baud rate of the UART.
static void start_console(void) {}

#endif // ET_LOG_ENABLED

void board_init(void) {
  start_clock();
  cortex_m_start_cycle_counter();
#if ET_LOG_ENABLED
  start_console();
#endif
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}

/// TODO(my_board): sends the bytes.
void board_console_write(const char* data, size_t size) {
  (void)data;
  (void)size;
}

/// TODO(my_board): waits for a byte.
int board_console_read(void) {
  for (;;) {
  }
}
