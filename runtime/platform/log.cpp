#include <executorch/runtime/platform/log.h>

#include <executorch/runtime/platform/platform.h>

#include "runtime/platform/format.h"

namespace executorch::runtime::internal {

namespace {

// Longest message, with its NUL. It is on the stack of whoever logs.
constexpr size_t kMessageSize = 256;

et_pal_log_level_t to_pal_level(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return kDebug;
    case LogLevel::Info:
      return kInfo;
    case LogLevel::Error:
      return kError;
    case LogLevel::Fatal:
      return kFatal;
    default:
      return kUnknown;
  }
}

} // namespace

et_timestamp_t get_log_timestamp() {
  return pal_current_ticks();
}

void vlogf(
    LogLevel level,
    et_timestamp_t timestamp,
    const char* filename,
    const char* function,
    size_t line,
    const char* format,
    va_list args) {
  char message[kMessageSize];
  const size_t length = vformat(message, sizeof(message), format, args);
  pal_emit_log_message(timestamp, to_pal_level(level), filename, function, line, message, length);
}

} // namespace executorch::runtime::internal
