#include "firmware/board.h"

extern "C" void mlperf_tiny_pin(bool high) {
  board_led(high);
}
