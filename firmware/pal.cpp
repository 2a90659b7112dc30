/// ExecuTorch's platform hooks (runtime/platform/platform.h) by means of firmware/board.h.

#include <executorch/runtime/platform/platform.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/host.h"

extern "C" {

void et_pal_init(void) {}

et_timestamp_t et_pal_current_ticks(void) {
  return board_ticks();
}

et_tick_ratio_t et_pal_ticks_to_ns_multiplier(void) {
  return {1000000000u, board_clock.ticks_per_second};
}

#if ET_LOG_ENABLED
void et_pal_emit_log_message(
    et_timestamp_t,
    et_pal_log_level_t level,
    const char* filename,
    const char*,
    size_t line,
    const char* message,
    size_t length) {
  const char prefix[] = {static_cast<char>(level), ' '};
  console_write(prefix, sizeof(prefix));
  console_text(filename);
  console_text(":");
  console_unsigned(line);
  console_text("] ");
  console_write(message, length);
  console_text("\n");
}
#endif

void et_pal_abort(void) {
#if ET_LOG_ENABLED
  console_text("ABORT: a check of the runtime failed; the message above names it\n");
#endif
  board_exit(kExitAbort);
}

} // extern "C"
