#include "firmware/board.h"

#include "firmware/boards/mps2/cmsdk.h"

/// Application Note AN547 (DAI 0547), memory map: the secure alias of UART 0, on a clock of 25 MHz.
#define UART0 0x59303000u
/// Corstone SSE-300 Example Subsystem Technical Reference Manual (101773), section "System control
/// region": the system counter's control frame, on the 32 MHz clock of the core. Its registers:
/// Armv8-A Architecture Reference Manual (DDI 0487), "CNTControlBase".
#define COUNTER 0x58100000u
#define CNTCR (COUNTER + 0x0)
#define CNTCV_LOW (COUNTER + 0x8)
enum { kClockHz = 32000000, kUartClockHz = 25000000, kBaud = 115200 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 31.25 ns.
const BoardClock board_clock = {kClockHz, 125, 256, "instructions"};

void board_init(void) {
  CORTEX_M_REGISTER(CNTCR) = 1; // EN
#if ET_LOG_ENABLED
  cmsdk_uart_start(UART0, kUartClockHz, kBaud);
#endif
}

uint32_t board_ticks(void) {
  return CORTEX_M_REGISTER(CNTCV_LOW);
}

void board_console_write(const char* data, size_t size) {
  cmsdk_uart_write(UART0, data, size);
}

int board_console_read(void) {
  return cmsdk_uart_read(UART0);
}
