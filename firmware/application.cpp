/// Runs the program that the build embeds by ExecuTorch's public API, with the generated
/// model_program.h and firmware/board.h. firmware/application.h says what it runs on. Start with
/// examples/minimal for an application of your own.

#include <cstring>
#include <type_traits>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/application.h"
#include "firmware/high_water_allocator.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::extension::BufferDataLoader;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;
using torch_fusion::kConsole;
using torch_fusion::Output;
using torch_fusion::report;

// Exactly as large as the build planned them, in sections of their own for the size report.
alignas(16)
    __attribute__((section(".arena.method"))) uint8_t method_arena[model_program::kMethodArenaSize];
alignas(model_program::kArenaAlignment) __attribute__((section(".arena.planned"))) uint8_t
    planned_arena[model_program::kPlannedArenaSize];
alignas(model_program::kArenaAlignment)
    __attribute__((section(".arena.temp"))) uint8_t temp_arena[model_program::kTempArenaSize];

/// There is nothing to measure if no kernel of the program uses temporary memory.
using TempAllocator =
    std::conditional_t<sizeof(temp_arena) == 0, MemoryAllocator, torch_fusion::HighWaterAllocator>;

/// The most bytes of temporary memory in use at one time.
[[maybe_unused]] size_t high_water(const MemoryAllocator&) {
  return 0;
}
[[maybe_unused]] size_t high_water(const torch_fusion::HighWaterAllocator& allocator) {
  return allocator.high_water();
}

constexpr torch_fusion::Program kProgram = TORCH_FUSION_PROGRAM(model_program);

/// A loaded method's engine, see firmware/application.h.
class LoadedMethod final {
 public:
  using Model = Method;
  static constexpr size_t kModelCount = 1;

  static constexpr const torch_fusion::Program& program(const Method&) {
    return kProgram;
  }

  static Error set_input(Method& method, size_t index, const void* data) {
    const auto& spec = model_program::kInputs[index];
    // TensorImpl has no type for constant data; set_input() only reads it.
    TensorImpl tensor(
        static_cast<ScalarType>(spec.dtype),
        spec.dim,
        const_cast<int32_t*>(spec.sizes),
        const_cast<void*>(data),
        const_cast<uint8_t*>(spec.dim_order));
    return method.set_input(EValue(Tensor(&tensor)), index);
  }

  static Error execute(Method& method) {
    return method.execute();
  }

  static Output output(const Method& method, size_t index) {
    const Tensor& tensor = method.get_output(index).toTensor();
    return {tensor.const_data_ptr(), tensor.nbytes(), tensor.sizes().data()};
  }

// Execution by steps is ExecuTorch's, but marked as experimental.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

  static Error profile(Method& method, void (*write)(size_t, uint32_t)) {
    for (size_t instruction = 0;; ++instruction) {
      const uint32_t start = board_ticks();
      const Error error = method.step();
      const uint32_t ticks = board_ticks_since(start);
      if (error != Error::Ok) {
        return error == Error::EndOfMethod ? method.reset_execution() : error;
      }
      write(instruction, ticks);
    }
  }

#pragma GCC diagnostic pop
};

} // namespace

void board_waits() {
  torch_fusion::feed_watchdog();
}

int main() {
  torch_fusion::begin_run(model_program::kName);
  if constexpr (kConsole) {
    console_unsigned(model_program::kSize);
    console_text(" bytes\n");
  }
  const bool has_host = host_open();
  if constexpr (model_program::kKeepsState) {
    // State without values of its own begins with zeros, but memory holds anything after a reset.
    std::memset(planned_arena, 0, sizeof(planned_arena));
  } else {
    host_arena_paint(planned_arena, sizeof(planned_arena));
  }

  BufferDataLoader loader(model_program::data(), model_program::kSize);
  MemoryAllocator method_allocator(sizeof(method_arena), method_arena);
  TempAllocator temp_allocator(sizeof(temp_arena), temp_arena);
  Span<uint8_t> buffers[model_program::kNumPlannedBuffers];
  for (size_t i = 0; i < model_program::kNumPlannedBuffers; ++i) {
    buffers[i] = {
        planned_arena + model_program::kPlannedBufferOffsets[i],
        model_program::kPlannedBufferSizes[i]};
  }
  HierarchicalAllocator planned_memory({buffers, model_program::kNumPlannedBuffers});
  MemoryManager memory_manager(&method_allocator, &planned_memory, &temp_allocator);

  const uint32_t start = board_ticks();
  Result<Program> program = Program::load(&loader, Program::Verification::InternalConsistency);
  if (!program.ok()) {
    torch_fusion::fail_run("load", program.error());
  }
  Result<Method> method = program->load_method(model_program::kMethodName, &memory_manager);
  report.load_ticks = board_ticks_since(start);
  if (!method.ok()) {
    torch_fusion::fail_run("load", method.error());
  }

  return torch_fusion::run_application<LoadedMethod>(
      *method,
      has_host,
      [&] {
        report.method_used = method_allocator.used_size();
        report.planned_used = host_arena_used(planned_arena, sizeof(planned_arena));
        report.temp_used = high_water(temp_allocator);
      },
      [] {
        torch_fusion::write_usage("arenas: method ", report.method_used, sizeof(method_arena));
        torch_fusion::write_usage(", planned ", report.planned_used, sizeof(planned_arena));
        torch_fusion::write_usage(", temp ", report.temp_used, sizeof(temp_arena));
      });
}
