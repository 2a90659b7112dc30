/// The usual application (firmware/application.h) for images that take signed programs: it runs the
/// newest that works, and takes another from the console (tools/commands/update). docs/update.md.

#include <cstring>

#include "firmware/board_flash.h"
#include "firmware/cortex_m/core.h"
#include "firmware/loaded_program.h"
#include "firmware/update/program_slots.h"
#include "update_settings.h"

extern "C" char __flash_end[];

namespace {

using torch_fusion::ProgramSlots;
using torch_fusion::TensorSpec;
using torch_fusion::UpdateStatus;

ProgramSlots slots(
    {reinterpret_cast<uintptr_t>(__flash_end) - 2 * update_settings::kSlotSize,
     update_settings::kSlotSize,
     board_flash.page_size,
     board_flash.write_size,
     board_flash_erase,
     board_flash_write},
    {update_settings::kPublicKey, update_settings::kProduct, update_settings::kVersion});

/// After an update: when it ended.
bool restarts = false;
uint32_t ended;

/// An update is no error where its outputs differ from those of the image's own program.
torch_fusion::Program running_program = kProgram;

struct UpdatableMethod : LoadedMethod {
  static const torch_fusion::Program& program(const Method&) {
    return running_program;
  }
};

bool is_like(const Tensor& tensor, const TensorSpec& spec) {
  return tensor.scalar_type() == static_cast<ScalarType>(spec.dtype) &&
      tensor.nbytes() == spec.nbytes;
}

/// Whether a program's inputs and outputs are those of the image's own, for which memory is
/// planned.
bool fits(const Method& method) {
  if (method.inputs_size() != kProgram.num_inputs ||
      method.outputs_size() != kProgram.num_outputs) {
    return false;
  }
  for (size_t i = 0; i < kProgram.num_inputs; ++i) {
    const auto meta = method.method_meta().input_tensor_meta(i);
    const TensorSpec& spec = kProgram.inputs[i];
    if (!meta.ok() || meta->nbytes() != spec.nbytes ||
        meta->scalar_type() != static_cast<ScalarType>(spec.dtype)) {
      return false;
    }
  }
  for (size_t i = 0; i < kProgram.num_outputs; ++i) {
    const EValue& value = method.get_output(i);
    if (!value.isTensor() || !is_like(value.toTensor(), kProgram.outputs[i])) {
      return false;
    }
  }
  return true;
}

/// Runs a program; returns only if it cannot be used.
Error run(Span<const uint8_t> bytes, bool has_host, int* status) {
  const bool is_update = bytes.size() > 0;
  Error problem = Error::Ok;
  const Error error = with_program(
      is_update ? bytes.data() : model_program::data(),
      is_update ? bytes.size() : model_program::kSize,
      [&](Method& method, const auto& measure) {
        if (is_update) {
          running_program.pte_size = static_cast<uint32_t>(bytes.size());
          running_program.example_outputs = nullptr;
          if (!fits(method)) {
            problem = Error::InvalidProgram;
            return;
          }
        }
        *status = torch_fusion::run_application<UpdatableMethod>(
            method,
            has_host,
            [&] {
              measure();
              // The example went well.
              slots.confirm();
            },
            write_memory);
      });
  return error != Error::Ok ? error : problem;
}

uint32_t load32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

} // namespace

/// Requests of tools/commands/update; each is answered by a status and, for the first, what runs.
size_t
torch_fusion::answer_other(uint8_t type, const uint8_t* arguments, size_t size, uint8_t* answer) {
  enum : uint8_t { kState = 16, kBegin, kWrite, kFinish };
  UpdateStatus status = UpdateStatus::Ok;
  size_t bytes = 1;
  if (type == kState && size == 0) {
    const uint32_t state[] = {slots.version(), static_cast<uint32_t>(slots.largest())};
    std::memcpy(answer + 1, state, sizeof(state));
    bytes += sizeof(state);
  } else if (type == kBegin && size == sizeof(uint32_t)) {
    status = slots.begin(load32(arguments));
  } else if (type == kWrite && size > sizeof(uint32_t)) {
    const size_t offset = load32(arguments);
    const size_t length = size - sizeof(uint32_t);
    // A request that comes again was taken before.
    if (offset == slots.received()) {
      status = slots.write({arguments + sizeof(uint32_t), length});
    } else if (offset + length != slots.received()) {
      status = UpdateStatus::WrongSize;
    }
  } else if (type == kFinish && size == 0) {
    status = slots.finish();
    restarts = status == UpdateStatus::Ok;
    ended = board_ticks();
  } else {
    return 0;
  }
  answer[0] = static_cast<uint8_t>(status);
  return bytes;
}

void board_waits() {
  torch_fusion::feed_watchdog();
  // The answer has left by then.
  if (restarts && board_ticks_since(ended) > board_clock.ticks_per_second / 50) {
    cortex_m_reset_system();
  }
}

int main() {
  torch_fusion::begin_run(model_program::kName);
  const bool has_host = host_open();
  prepare_arenas();
  int status = kExitError;
  for (;;) {
    const Span<const uint8_t> update = slots.choose();
    if constexpr (kConsole) {
      console_text("version ");
      console_unsigned(slots.version());
      console_text(update.size() > 0 ? " of an update\n" : " of the image\n");
    }
    const Error error = run(update, has_host, &status);
    if (error == Error::Ok) {
      return status;
    }
    if (update.size() == 0) {
      torch_fusion::fail_run("load", error);
    }
    if constexpr (kConsole) {
      torch_fusion::write_error("load", error);
    }
    // After a write that fails, the image's own program is what works.
    if (slots.reject() != UpdateStatus::Ok) {
      torch_fusion::fail_run("reject", error);
    }
  }
}
