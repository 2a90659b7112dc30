#include "firmware/board.h"

#include "firmware/chips/mps2/mps2_board.h"
#include "firmware/cortex_m/core.h"

/// Corstone SSE-320 Reference Guide (109760), memory map: the secure alias of UART 0, which is that
/// of the Cortex-M System Design Kit, on a clock of 25 MHz.
#define UART0 0x58203000u
enum { kClockHz = 25000000, kUartClockHz = 25000000 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

const Mps2Board mps2_board = {UART0, kUartClockHz};

void mps2_start_counter(void) {
  cortex_m_start_cycle_counter();
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}
