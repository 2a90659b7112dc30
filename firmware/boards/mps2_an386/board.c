#include "firmware/board.h"

#include "firmware/boards/mps2/cmsdk.h"

/// Application Note AN386 (DAI 0386D), memory map: timer 0 and UART 0 on the 25 MHz system clock.
#define TIMER0 0x40000000u
#define UART0 0x40004000u
enum { kClockHz = 25000000, kBaud = 115200 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 1 s / kClockHz.
const BoardClock board_clock = {kClockHz, 40, 64, "instructions"};

void board_init(void) {
  cmsdk_timer_start(TIMER0);
#if ET_LOG_ENABLED
  cmsdk_uart_start(UART0, kClockHz, kBaud);
#endif
}

uint32_t board_ticks(void) {
  return cmsdk_timer_ticks(TIMER0);
}

void board_console_write(const char* data, size_t size) {
  cmsdk_uart_write(UART0, data, size);
}

int board_console_read(void) {
  return cmsdk_uart_read(UART0);
}
