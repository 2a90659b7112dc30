#include "firmware/board.h"

#include "firmware/boards/mps2/cmsdk.h"
#include "firmware/boards/mps2/mps2_board.h"

/// Application Note AN505 (DAI 0505B), memory map: the secure aliases of timer 0 and UART 0, on the
/// 20 MHz system clock.
#define TIMER0 0x50000000u
#define UART0 0x50200000u
enum { kClockHz = 20000000 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 1 s / kClockHz.
const BoardClock board_clock = {kClockHz, 50, 64, "instructions"};

const Mps2Board mps2_board = {UART0, kClockHz};

void mps2_start_counter(void) {
  cmsdk_timer_start(TIMER0);
}

uint32_t board_ticks(void) {
  return cmsdk_timer_ticks(TIMER0);
}
