/// Runs the model that the build compiled to C++ (engine = "compiled"): in an emulator on the
/// host's inputs, else on the embedded example. It uses the model's C interface by the generated
/// model_program.h, and firmware/board.h. Start here for an application of your own with such a
/// model.

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "firmware/application.h"
#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/tensor_text.h"
#include "model_program.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using torch_fusion::feed_watchdog;
using torch_fusion::kConsole;

/// The model with its memory, in a section of its own for the size report.
__attribute__((section(".arena.planned"))) compiled_model::Model model;

HostReport report;

/// Ends with what went wrong, where a host or a person can see it.
[[noreturn]] void fail(const char* step, torch_fusion_status status) {
  torch_fusion::fail_run(report, step, static_cast<executorch::runtime::Error>(status));
}

void check(const char* step, torch_fusion_status status) {
  if (status != TORCH_FUSION_OK) {
    fail(step, status);
  }
}

/// Runs an inference; an error ends the application. Returns the ticks it took.
uint32_t execute() {
  feed_watchdog();
  const uint32_t start = board_ticks();
  const torch_fusion_status status = compiled_model::run(&model);
  const uint32_t ticks = board_ticks_since(start);
  check("execute", status);
  return ticks;
}

void set_input(size_t index, const void* data) {
  check(
      "input",
      compiled_model::set_input(&model, index, data, model_program::kInputs[index].nbytes));
}

/// Runs on every sample that the host sends and gives it the outputs.
void run_host() {
  while (const void* const inputs = host_read(model_program::kInputsSize)) {
    for (size_t i = 0; i < model_program::kNumInputs; ++i) {
      set_input(i, static_cast<const uint8_t*>(inputs) + model_program::kInputs[i].offset);
    }
    const uint32_t ticks = execute();
    if (report.samples == 0) {
      report.execute_ticks = ticks;
    }
    for (size_t i = 0; i < model_program::kNumOutputs; ++i) {
      host_write(compiled_model::output(&model, i), compiled_model::output_size(&model, i));
    }
    ++report.samples;
  }
}

/// Writes an output and compares it with PyTorch's of the example. Returns whether it is close
/// enough.
bool check_output(size_t index) {
  const auto& spec = model_program::kOutputs[index];
  if (compiled_model::output_size(&model, index) != spec.nbytes) {
    console_text("an output has another size than PyTorch's\n");
    return false;
  }
  TensorImpl impl(
      static_cast<ScalarType>(spec.dtype),
      spec.dim,
      const_cast<int32_t*>(spec.sizes),
      const_cast<void*>(compiled_model::output(&model, index)),
      const_cast<uint8_t*>(spec.dim_order));
  const Tensor output(&impl);
  const void* const expected = model_program::kExampleOutputs[index];
  console_text("output ");
  console_unsigned(index);
  console_text(": ");
  torch_fusion::write_tensor(output);
  const bool close =
      torch_fusion::all_close(output, expected, model_program::kAtol, model_program::kRtol);
  console_text("  largest difference from PyTorch: ");
  console_float(torch_fusion::max_difference(output, expected));
  console_text(close ? "\n" : " (too large)\n");
  return close;
}

/// Runs on the embedded example. Returns whether the outputs are PyTorch's.
bool run_example() {
  for (size_t i = 0; i < model_program::kNumInputs; ++i) {
    set_input(i, model_program::kExampleInputs[i]);
  }
  report.execute_ticks = execute();
  report.samples = 1;
  bool pass = true;
  if constexpr (kConsole) {
    for (size_t i = 0; i < model_program::kNumOutputs; ++i) {
      pass = check_output(i) && pass;
    }
  }
  return pass;
}

} // namespace

void board_waits() {
  feed_watchdog();
}

int main() {
  torch_fusion::begin_run();
  if constexpr (kConsole) {
    console_text("compiled\n");
  }
  const bool has_host = host_open();
  host_arena_paint(model.arena, sizeof(model.arena));

  const uint32_t start = board_ticks();
  const torch_fusion_status status = compiled_model::init(&model, sizeof(model));
  report.load_ticks = board_ticks_since(start);
  check("init", status);

  bool pass = true;
  if (has_host) {
    run_host();
  } else if constexpr (model_program::kHasExample) {
    pass = run_example();
  }

  report.method_used = model_program::kMethodArenaSize;
  report.planned_used = host_arena_used(model.arena, model_program::kPlannedArenaSize);
  return torch_fusion::end_run(report, pass, [] {
    console_text("memory: ");
    console_unsigned(sizeof(model));
    console_text(" bytes");
  });
}
