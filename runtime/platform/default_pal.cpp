// Platform hooks of an application that defines none: no clock, no console, no heap.

#include <executorch/runtime/platform/compiler.h>
#define ET_INTERNAL_PLATFORM_WEAKNESS ET_WEAK
#include <executorch/runtime/platform/platform.h>

void et_pal_init(void) {}

void et_pal_abort(void) {
  // A fault, so that a debugger or the fault handler shows where it happened.
  __builtin_trap();
}

et_timestamp_t et_pal_current_ticks(void) {
  return 0;
}

et_tick_ratio_t et_pal_ticks_to_ns_multiplier(void) {
  return {1, 1};
}

void et_pal_emit_log_message(
    et_timestamp_t,
    et_pal_log_level_t,
    const char*,
    const char*,
    size_t,
    const char*,
    size_t) {}

void* et_pal_allocate(size_t) {
  return nullptr;
}

void et_pal_free(void*) {}
