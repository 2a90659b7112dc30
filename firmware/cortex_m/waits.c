#include "firmware/board.h"

__attribute__((weak)) void board_waits(void) {}
