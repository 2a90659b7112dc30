#include "firmware/board.h"

#include "firmware/chips/mps2/cmsdk.h"
#include "firmware/chips/mps2/mps2_board.h"

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 1 s / CLOCK_HZ.
const BoardClock board_clock = {CLOCK_HZ, 1000000000 / CLOCK_HZ, 64, "instructions"};

const Mps2Board mps2_board = {UART0, CLOCK_HZ};

void mps2_start_counter(void) {
  cmsdk_timer_start(TIMER0);
}

uint32_t board_ticks(void) {
  return cmsdk_timer_ticks(TIMER0);
}
