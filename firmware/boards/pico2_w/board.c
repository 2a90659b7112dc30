#include "firmware/board.h"

#include "firmware/chips/rp/rp.h"
#include "firmware/chips/rp/usb.h"

const char usb_product[] = "Pico 2 W console";

void rp_start_ticks(void) {
  cortex_m_start_cycle_counter();
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}

void rp_start_watchdog_ticks(void) {
  // A tick is a microsecond: clk_ref is the crystal.
  TICKS_WATCHDOG_CYCLES = 12;
  TICKS_WATCHDOG_CTRL = 1;
}
