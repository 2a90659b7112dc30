#include "firmware/board.h"
#include "firmware/cortex_m/core.h"

void board_exit(int status) {
  // Where a debugger finds it.
  static volatile int exit_status;
  exit_status = status;
  __asm volatile("cpsid i");
  for (;;) {
    __asm volatile("wfi");
  }
}
