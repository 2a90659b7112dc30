/// The least application: it loads the program that is in the image, sets an input, executes,
/// and prints the output. firmware/application.cpp is the one with everything else.

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/tensor_text.h"
#include "model_program.h"

using namespace executorch::runtime;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

// All the memory there is for the program, exact to the byte.
alignas(16) static uint8_t method_arena[model_program::kMethodArenaSize];
alignas(model_program::kArenaAlignment) static uint8_t
    planned_arena[model_program::kPlannedArenaSize];
alignas(model_program::kArenaAlignment) static uint8_t temp_arena[model_program::kTempArenaSize];

int main() {
  executorch::extension::BufferDataLoader loader(model_program::data(), model_program::kSize);
  MemoryAllocator method_allocator(sizeof(method_arena), method_arena);
  MemoryAllocator temp_allocator(sizeof(temp_arena), temp_arena);
  Span<uint8_t> buffers[model_program::kNumPlannedBuffers];
  for (size_t i = 0; i < model_program::kNumPlannedBuffers; ++i) {
    buffers[i] = {
        model_program::planned_buffer(planned_arena, i), model_program::kPlannedBufferSizes[i]};
  }
  HierarchicalAllocator planned_memory({buffers, model_program::kNumPlannedBuffers});
  MemoryManager memory(&method_allocator, &planned_memory, &temp_allocator);

  Result<Program> program = Program::load(&loader);
  Result<Method> method =
      program.ok() ? program->load_method(model_program::kMethodName, &memory) : program.error();
  if (!method.ok()) {
    return kExitError;
  }

  // Here an application puts what its sensor measured; this one takes the example of the model
  // file.
  const auto& spec = model_program::kInputs[0];
  TensorImpl input(
      static_cast<ScalarType>(spec.dtype),
      spec.dim,
      const_cast<int32_t*>(spec.sizes),
      const_cast<unsigned char*>(model_program::kExampleInputs[0]),
      const_cast<uint8_t*>(spec.dim_order));
  if (method->set_input(EValue(Tensor(&input)), 0) != Error::Ok || method->execute() != Error::Ok) {
    return kExitError;
  }

  console_text("output: ");
  torch_fusion::write_tensor(method->get_output(0).toTensor());
  console_text("PASS\n");
  return kExitPass;
}
