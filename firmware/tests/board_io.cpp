/// LED, button and watchdog: the LED is on until the button is pressed; then nobody feeds the
/// watchdog.
#include "firmware/board.h"

int main() {
  board_led(true);
  while (!board_button()) {
  }
  board_led(false);
  board_watchdog(100);
  for (;;) {
  }
}
