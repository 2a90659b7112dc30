#include "runtime/platform/pal_table.h"

namespace executorch::runtime {

namespace internal {

PalImpl pal_table = {
    et_pal_init,
    et_pal_abort,
    et_pal_current_ticks,
    et_pal_ticks_to_ns_multiplier,
    et_pal_emit_log_message,
    et_pal_allocate,
    et_pal_free,
    nullptr};

} // namespace internal

PalImpl PalImpl::create(pal_emit_log_message_method emit_log_message, const char* source_filename) {
  PalImpl impl{};
  impl.emit_log_message = emit_log_message;
  impl.source_filename = source_filename;
  return impl;
}

PalImpl PalImpl::create(
    pal_init_method init,
    pal_abort_method abort,
    pal_current_ticks_method current_ticks,
    pal_ticks_to_ns_multiplier_method ticks_to_ns_multiplier,
    pal_emit_log_message_method emit_log_message,
    pal_allocate_method allocate,
    pal_free_method free,
    const char* source_filename) {
  return {
      init,
      abort,
      current_ticks,
      ticks_to_ns_multiplier,
      emit_log_message,
      allocate,
      free,
      source_filename};
}

bool register_pal(PalImpl impl) {
  PalImpl& table = internal::pal_table;
  // The first one to register wins; a second one must be a mistake.
  if (table.source_filename != nullptr) {
    return false;
  }
  const auto set = [](auto& entry, auto replacement) {
    if (replacement != nullptr) {
      entry = replacement;
    }
  };
  set(table.init, impl.init);
  set(table.abort, impl.abort);
  set(table.current_ticks, impl.current_ticks);
  set(table.ticks_to_ns_multiplier, impl.ticks_to_ns_multiplier);
  set(table.emit_log_message, impl.emit_log_message);
  set(table.allocate, impl.allocate);
  set(table.free, impl.free);
  table.source_filename = impl.source_filename != nullptr ? impl.source_filename : "";
  return true;
}

const PalImpl* get_pal_impl() {
  return &internal::pal_table;
}

} // namespace executorch::runtime
