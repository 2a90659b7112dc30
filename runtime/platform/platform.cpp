#include <executorch/runtime/platform/platform.h>

#include "runtime/platform/pal_table.h"

namespace executorch::runtime {

using internal::pal_table;

void pal_init() {
  if (&pal_table != nullptr) {
    pal_table.init();
  } else {
    et_pal_init();
  }
}

void pal_abort() {
  if (&pal_table != nullptr) {
    pal_table.abort();
  }
  et_pal_abort();
}

et_timestamp_t pal_current_ticks() {
  return &pal_table != nullptr ? pal_table.current_ticks() : et_pal_current_ticks();
}

et_tick_ratio_t pal_ticks_to_ns_multiplier() {
  return &pal_table != nullptr ? pal_table.ticks_to_ns_multiplier()
                               : et_pal_ticks_to_ns_multiplier();
}

void pal_emit_log_message(
    et_timestamp_t timestamp,
    et_pal_log_level_t level,
    const char* filename,
    const char* function,
    size_t line,
    const char* message,
    size_t length) {
  auto* emit = &pal_table != nullptr ? pal_table.emit_log_message : et_pal_emit_log_message;
  emit(timestamp, level, filename, function, line, message, length);
}

void* pal_allocate(size_t size) {
  return &pal_table != nullptr ? pal_table.allocate(size) : et_pal_allocate(size);
}

void pal_free(void* ptr) {
  if (&pal_table != nullptr) {
    pal_table.free(ptr);
  } else {
    et_pal_free(ptr);
  }
}

} // namespace executorch::runtime
