#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The application needs this of a board. Each folder of firmware/boards implements it; it is C, so
/// that board code needs no C++.

#ifdef __cplusplus
extern "C" {
#endif

/// Tells how to read the ticks of board_ticks().
typedef struct {
  /// Ticks per second.
  uint32_t ticks_per_second;
  /// A tick is numerator/denominator of `unit`.
  uint32_t numerator;
  uint32_t denominator;
  /// "cycles" on hardware; "instructions" where an emulator counts them.
  const char* unit;
} BoardClock;

extern const BoardClock board_clock;

/// Sets up clocks, the tick counter and, with the console on, the console. Called once, before
/// main(), with .data and .bss in place.
void board_init(void);

/// The value of a 32-bit counter that counts up and wraps around.
uint32_t board_ticks(void);

/// Ticks from `start` to now, without those that reading the counter itself takes.
static inline uint32_t board_ticks_since(uint32_t start) {
  const uint32_t end = board_ticks();
  const uint32_t overhead = board_ticks() - end;
  return end - start - overhead;
}

/// Sends `size` bytes to the console as they are (frames are sent this way, too); returns when the
/// last one is in the transmitter.
void board_console_write(const char* data, size_t size);

/// Waits for the next byte from the console.
int board_console_read(void);

/// These are for applications on boards that have them; an image that uses what its board lacks
/// does not link.

/// Turns the user's LED on or off.
void board_led(bool on);

/// Returns whether the user's button is pressed.
bool board_button(void);

/// Starts the watchdog, or feeds it: the board resets unless this is called again within
/// `milliseconds`, 16 s at most. It is off until the first call and cannot be turned off.
void board_watchdog(uint32_t milliseconds);

/// Feeds the watchdog for as long again as board_watchdog() said, which must have been called. A
/// few instructions, for loops.
void board_watchdog_feed(void);

/// An application may define this: boards call it again and again while they wait for the console,
/// for a byte or until one is sent. By default it does nothing.
void board_waits(void);

/// Ends the program: with exit status `status` in an emulator; on hardware the core sleeps for
/// good.
__attribute__((noreturn)) void board_exit(int status);

#ifdef __cplusplus
}
#endif
