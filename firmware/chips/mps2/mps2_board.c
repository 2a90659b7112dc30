#include "firmware/chips/mps2/mps2_board.h"

#include "firmware/board.h"
#include "firmware/chips/mps2/cmsdk.h"

enum { kBaud = 115200 };

void board_init(void) {
  mps2_start_counter();
#if ET_LOG_ENABLED
  cmsdk_uart_start(mps2_board.uart, mps2_board.uart_clock_hz, kBaud);
#endif
}

void board_console_write(const char* data, size_t size) {
  cmsdk_uart_write(mps2_board.uart, data, size);
}

int board_console_read(void) {
  return cmsdk_uart_read(mps2_board.uart);
}
