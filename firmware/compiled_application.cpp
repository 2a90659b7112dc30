/// Runs the model that the build compiled to C++ (engine = "compiled") by the model's C interface,
/// with the generated model_program.h and firmware/board.h. firmware/application.h says what it
/// runs on.

#include "firmware/application.h"
#include "firmware/layer_ticks.h"

namespace {

using torch_fusion::Error;
using torch_fusion::kConsole;
using torch_fusion::Output;
using torch_fusion::report;

/// The model with its memory, in a section of its own for the size report. The simulator knows it
/// by its name, and reads the outputs from there.
__attribute__((section(".arena.planned"))) compiled_model::Model compiled_instance;

constexpr torch_fusion::Program kProgram = TORCH_FUSION_PROGRAM(model_program);

/// A compiled model's engine, see firmware/application.h. Its statuses are ExecuTorch's errors.
class CompiledModel final {
 public:
  using Model = compiled_model::Model;
  static constexpr size_t kModelCount = 1;

  static constexpr const torch_fusion::Program& program(const Model&) {
    return kProgram;
  }

  static Error set_input(Model& to, size_t index, const void* data) {
    return static_cast<Error>(
        compiled_model::set_input(&to, index, data, model_program::kInputs[index].nbytes));
  }

  static Error execute(Model& given) {
    return static_cast<Error>(compiled_model::run(&given));
  }

  static Output output(const Model& of, size_t index) {
    return {
        compiled_model::output(&of, index),
        compiled_model::output_size(&of, index),
        compiled_model::output_shape(&of, index)};
  }

  static Error profile(Model& given, void (*write)(size_t, uint32_t)) {
    return torch_fusion::profile_layers(write, [&] { return execute(given); });
  }
};

} // namespace

void board_waits() {
  torch_fusion::feed_watchdog();
}

int main() {
  torch_fusion::begin_run(model_program::kName);
  if constexpr (kConsole) {
    console_text("compiled\n");
  }
  const bool has_host = host_open();
  auto& model = compiled_instance;
  host_arena_paint(model.arena, sizeof(model.arena));

  const uint32_t start = board_ticks();
  const torch_fusion_status status = compiled_model::init(&model, sizeof(model));
  report.load_ticks = board_ticks_since(start);
  if (status != TORCH_FUSION_OK) {
    torch_fusion::fail_run("init", static_cast<Error>(status));
  }

  return torch_fusion::run_application<CompiledModel>(
      model,
      has_host,
      [] {
        report.method_used = model_program::kMethodArenaSize;
        report.temp_used = model_program::kTempArenaSize;
        report.planned_used =
            host_arena_used(compiled_instance.arena, model_program::kPlannedArenaSize);
      },
      [] {
        console_text("memory: ");
        console_unsigned(sizeof(compiled_instance));
        console_text(" bytes");
      });
}
