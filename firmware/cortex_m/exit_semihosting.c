#include "firmware/board.h"
#include "firmware/cortex_m/semihosting.h"

void board_exit(int status) {
  const struct {
    int reason;
    int status;
  } block = {kStoppedApplicationExit, status};
  for (;;) {
    semihosting_call(kSysExitExtended, &block);
  }
}
