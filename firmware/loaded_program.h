#pragma once

#include <cstring>
#include <type_traits>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/application.h"
#include "firmware/high_water_allocator.h"

/// Loads a program by ExecuTorch's public API into arenas as large as the build planned them for
/// the image's own. Only the source with main() includes it.

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
class LoadedMethod {
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

/// Writes for a person what the arenas had.
void write_memory() {
  torch_fusion::write_usage("arenas: method ", report.method_used, sizeof(method_arena));
  torch_fusion::write_usage(", planned ", report.planned_used, sizeof(planned_arena));
  torch_fusion::write_usage(", temp ", report.temp_used, sizeof(temp_arena));
}

/// Prepares the memory of tensors before the first program.
void prepare_arenas() {
  if constexpr (model_program::kKeepsState) {
    // State without values of its own begins with zeros, but memory holds anything after a reset.
    std::memset(planned_arena, 0, sizeof(planned_arena));
  } else {
    host_arena_paint(planned_arena, sizeof(planned_arena));
  }
}

/**
 * Loads a program into the arenas and uses it.
 *
 * @param[in] data The .pte, which stays there.
 * @param[in] size Its bytes.
 * @param[in] use Called with the method and a function that sets what the report has of the memory.
 *
 * @returns The error of loading, or Ok after `use`.
 */
template <class Use>
Error with_program(const void* data, size_t size, const Use& use) {
  BufferDataLoader loader(data, size);
  MemoryAllocator method_allocator(sizeof(method_arena), method_arena);
  TempAllocator temp_allocator(sizeof(temp_arena), temp_arena);
  Span<uint8_t> buffers[model_program::kNumPlannedBuffers];
  for (size_t i = 0; i < model_program::kNumPlannedBuffers; ++i) {
    buffers[i] = {
        model_program::planned_buffer(planned_arena, i), model_program::kPlannedBufferSizes[i]};
  }
  HierarchicalAllocator planned_memory({buffers, model_program::kNumPlannedBuffers});
  MemoryManager memory_manager(&method_allocator, &planned_memory, &temp_allocator);

  const uint32_t start = board_ticks();
  Result<Program> program = Program::load(&loader, Program::Verification::InternalConsistency);
  if (!program.ok()) {
    return program.error();
  }
  Result<Method> method = program->load_method(model_program::kMethodName, &memory_manager);
  report.load_ticks = board_ticks_since(start);
  if (!method.ok()) {
    return method.error();
  }
  use(*method, [&] {
    report.method_used = method_allocator.used_size();
    report.planned_used = host_arena_used(planned_arena, sizeof(planned_arena));
    report.temp_used = high_water(temp_allocator);
  });
  return Error::Ok;
}

} // namespace
