#include "firmware/board.h"

#include "firmware/chips/rp/rp.h"

enum { kCyclesPerMicrosecond = kClockHz / 1000000, kSysTickMask = 0xFFFFFF };

void rp_start_ticks(void) {
  // "Watchdog", "Tick generation": a tick is a microsecond.
  WATCHDOG_TICK = 1u << 9 | 12;
  // A debugger's reset is the core's alone: both begin at zero.
  RP_SET(RESETS_BASE, RESETS_RESET) = kResetTimer;
  rp_release(kResetTimer);
  SYST_RVR = kSysTickMask;
  SYST_CVR = 0;
  SYST_CSR = 1u << 2 | 1u << 0; // the core's clock, no exception
}

/// A Cortex-M0+ has no counter of cycles but SysTick, whose 24 bits count down. The timer's
/// microseconds, 125 cycles each from the same crystal, tell how often it has wrapped around: the
/// result is the number nearest to them that has SysTick's lower bits. Both stand still while a
/// debugger halts the core.
uint32_t board_ticks(void) {
  const uint32_t estimate = TIMER_TIMERAWL * kCyclesPerMicrosecond;
  const uint32_t cycles = ~SYST_CVR & kSysTickMask;
  // The difference in 24 bits, as a number from -2^23 to 2^23 - 1.
  const int32_t difference = (int32_t)((cycles - estimate) << 8) >> 8;
  return estimate + (uint32_t)difference;
}

void rp_start_watchdog_ticks(void) {
  // They count time, too, and run.
}
