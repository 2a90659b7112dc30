/// Runs several models that the build compiled to C++ (`models` of torch_firmware, without `srcs`),
/// one at a time, with the generated model_program.h and firmware/board.h. firmware/application.h
/// says what they run on. A line on the console, or the file that a host names by `model=`, chooses
/// one; without a choice, all run on their examples, and the first one goes on with the console.

#include "firmware/application.h"
#include "firmware/compiled_model.h"
#include "firmware/layer_ticks.h"

namespace {

using torch_fusion::Error;
using torch_fusion::kConsole;
using torch_fusion::Output;
using torch_fusion::report;

/// The chosen model with its memory, in a section of its own for the size report. The simulator
/// knows it by its name, and reads the outputs from there.
alignas(torch_fusion::kArenaAlignment) __attribute__((
    section(".arena.planned"))) unsigned char compiled_instance[model_program::kInstanceSize];

/// The engine of several compiled models, of which one is chosen; see firmware/application.h. Their
/// statuses are ExecuTorch's errors.
class CompiledModels final {
 public:
  using Model = const torch_fusion::CompiledModel*;
  static constexpr size_t kModelCount = std::size(model_program::kModels);
  static constexpr size_t kLongestName = model_program::kLongestName;

  static const char* name(size_t index) {
    return model_program::kModels[index].program.name;
  }

  static Error choose(Model& model, size_t index) {
    model = &model_program::kModels[index];
    host_arena_paint(compiled_instance, model->arena_size);
    return static_cast<Error>(model->init(compiled_instance, model->size));
  }

  static const torch_fusion::Program& program(const Model& model) {
    return model->program;
  }

  static Error set_input(Model& to, size_t index, const void* data) {
    return static_cast<Error>(
        to->set_input(compiled_instance, index, data, to->program.inputs[index].nbytes));
  }

  static Error execute(Model& given) {
    return static_cast<Error>(given->run(compiled_instance));
  }

  static Output output(const Model& of, size_t index) {
    return {
        of->output(compiled_instance, index),
        of->output_size(compiled_instance, index),
        of->output_shape(compiled_instance, index)};
  }

  static Error profile(Model& given, void (*write)(size_t, uint32_t)) {
    return torch_fusion::profile_layers(write, [&] { return execute(given); });
  }
};

using ModelsRun = torch_fusion::Run<CompiledModels>;

/// Sets what the report has of the chosen model's memory.
void set_report(const torch_fusion::CompiledModel& model) {
  report.method_used = model.method_arena_size;
  report.temp_used = model.temp_arena_size;
  report.planned_used = host_arena_used(compiled_instance, model.planned_arena_size);
}

void write_size(const torch_fusion::CompiledModel& model) {
  torch_fusion::write_usage("memory: ", model.size, sizeof(compiled_instance));
  console_text(" bytes");
}

/// Runs the model of that index on its example. Returns whether its outputs are PyTorch's.
bool run_example(CompiledModels::Model& model, size_t index) {
  bool pass = true;
  ModelsRun::choose(model, index);
  if constexpr (model_program::kHasExample) {
    pass = ModelsRun::run_example(model);
  }
  if constexpr (torch_fusion::kProfiling) {
    ModelsRun::profile(model);
  }
  if constexpr (kConsole) {
    torch_fusion::write_ticks("load: ", report.load_ticks);
    torch_fusion::write_ticks("execute: ", report.execute_ticks);
    write_size(*model);
    console_text("\n");
  }
  return pass;
}

} // namespace

void board_waits() {
  torch_fusion::feed_watchdog();
}

int main() {
  torch_fusion::begin_run("several models");
  if constexpr (kConsole) {
    console_text("compiled\n");
  }
  const bool has_host = host_open();
  CompiledModels::Model model = nullptr;
  size_t index = 0;
  bool pass = true;
  size_t size = 0;
  const auto* const name = static_cast<const char*>(host_file("model=", &size));
  if (name != nullptr) {
    index = ModelsRun::find(name, size);
    if (index == CompiledModels::kModelCount) {
      torch_fusion::fail_run("model", Error::InvalidArgument);
    }
  } else if (!has_host) {
    // The first one comes last: it is the one that goes on.
    for (size_t other = CompiledModels::kModelCount - 1; other > 0; --other) {
      pass = run_example(model, other) && pass;
    }
  }
  ModelsRun::choose(model, index);
  return torch_fusion::run_application<CompiledModels>(
      model, has_host, [&] { set_report(*model); }, [&] { write_size(*model); }, pass);
}
