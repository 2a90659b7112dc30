#include "firmware/board.h"

#include "firmware/chips/mps2/mps2_board.h"
#include "firmware/cortex_m/core.h"

/// Application Note AN547 (DAI 0547), memory map: the secure alias of UART 0, on a clock of 25 MHz.
#define UART0 0x59303000u
/// Corstone SSE-300 Example Subsystem Technical Reference Manual (101773), section "System control
/// region": the system counter's control frame, on the 32 MHz clock of the core. Its registers:
/// Armv8-A Architecture Reference Manual (DDI 0487), "CNTControlBase".
#define COUNTER 0x58100000u
#define CNTCR (COUNTER + 0x0)
#define CNTCV_LOW (COUNTER + 0x8)
enum { kClockHz = 32000000, kUartClockHz = 25000000 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 31.25 ns.
const BoardClock board_clock = {kClockHz, 125, 256, "instructions"};

const Mps2Board mps2_board = {UART0, kUartClockHz};

void mps2_start_counter(void) {
  CORTEX_M_REGISTER(CNTCR) = 1; // EN
}

uint32_t board_ticks(void) {
  return CORTEX_M_REGISTER(CNTCV_LOW);
}
