#include "firmware/board.h"

#include "firmware/boards/mps2/cmsdk.h"
#include "firmware/boards/mps2/mps2_board.h"

/// Application Note AN500 (DAI 0500), memory map: timer 0 and UART 0 on the 25 MHz system clock.
#define TIMER0 0x40000000u
#define UART0 0x40004000u
enum { kClockHz = 25000000 };

/// QEMU's -icount shift=6 gives every instruction 64 ns; a tick is 1 s / kClockHz.
const BoardClock board_clock = {kClockHz, 40, 64, "instructions"};

const Mps2Board mps2_board = {UART0, kClockHz};

void mps2_start_counter(void) {
  cmsdk_timer_start(TIMER0);
}

uint32_t board_ticks(void) {
  return cmsdk_timer_ticks(TIMER0);
}
