/// Sends back what it receives.
#include "firmware/board.h"

int main() {
  for (;;) {
    const char byte = static_cast<char>(board_console_read());
    board_console_write(&byte, 1);
  }
}
