#pragma once

#include <stdint.h>

#include <executorch/runtime/core/error.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/error_text.h"
#include "firmware/host.h"
#include "firmware/stack.h"
#include "model_program.h"

/// What application.cpp and compiled_application.cpp have in common: how a run begins, what a host
/// and a person at the console get to know of it, and how it ends.

namespace torch_fusion {

/// Whether this image prints; what only printing needs is left out otherwise.
inline constexpr bool kConsole = ET_LOG_ENABLED;

/// Gives what comes next, such as an execution, as long as the image's watchdog waits.
inline void feed_watchdog() {
  if constexpr (kWatchdogMilliseconds > 0) {
    board_watchdog_feed();
  }
}

/// Starts the watchdog and says which program runs, and after a comma how.
inline void begin_run() {
  if constexpr (kWatchdogMilliseconds > 0) {
    board_watchdog(kWatchdogMilliseconds);
  }
  if constexpr (kConsole) {
    console_text("Torch Fusion: ");
    console_text(model_program::kName);
    console_text(", ");
  }
}

/// Ends with what went wrong, where a host or a person can see it.
[[noreturn]] inline void
fail_run(HostReport& report, const char* step, executorch::runtime::Error error) {
  if constexpr (kConsole) {
    write_error(step, error);
  }
  report.error = static_cast<uint32_t>(error);
  host_close(&report);
  board_exit(kExitError);
}

/// Writes what something took, in the board's unit and in microseconds.
inline void write_ticks(const char* name, uint32_t ticks) {
  console_text(name);
  console_unsigned(static_cast<uint64_t>(ticks) * board_clock.numerator / board_clock.denominator);
  console_text(" ");
  console_text(board_clock.unit);
  console_text(", ");
  console_unsigned(static_cast<uint64_t>(ticks) * 1000000 / board_clock.ticks_per_second);
  console_text(" us\n");
}

inline void write_usage(const char* name, size_t used, size_t size) {
  console_text(name);
  console_unsigned(used);
  console_text(" of ");
  console_unsigned(size);
}

/// Measures the stack, and hands what was measured to the host and to a person.
///
/// `write_memory()` writes what the program's memory takes, without the end of the line. Returns
/// the image's exit status.
template <class WriteMemory>
int end_run(HostReport& report, bool pass, const WriteMemory& write_memory) {
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  if constexpr (kConsole) {
    write_ticks("load: ", report.load_ticks);
    write_ticks("execute: ", report.execute_ticks);
    write_memory();
    write_usage("\nstack: ", report.stack_used, report.stack_size);
    console_text(pass ? "\nPASS\n" : "\nFAIL: the outputs differ from PyTorch's\n");
  }
  if (pass) {
    report.pass = kHostReportPass;
  }
  host_close(&report);
  return pass ? kExitPass : kExitMismatch;
}

} // namespace torch_fusion
