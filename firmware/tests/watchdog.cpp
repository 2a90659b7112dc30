/// The watchdog is fed for three times as long as it waits, and then no more.
#include "firmware/board.h"

#include <cstring>

namespace {

void print(const char* text) {
  board_console_write(text, std::strlen(text));
}

} // namespace

int main() {
  print("start\n");
  board_watchdog(20);
  const uint32_t begin = board_ticks();
  while (board_ticks() - begin < board_clock.ticks_per_second / 1000 * 60) {
    board_watchdog(20);
    // Some milliseconds.
    for (volatile uint32_t i = board_clock.ticks_per_second / 2000; i != 0; i = i - 1) {
    }
  }
  print("hungry\n");
  for (;;) {
  }
}
