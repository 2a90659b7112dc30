/// Three programs in one image, loaded at once into shared arenas, which run by turns. One of them
/// keeps state, which the others' inferences must leave alone.

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"
#include "firmware/tensor_text.h"
#include "model_programs.h"

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

// These are in the order of the image's `models`.
enum { kSine, kSoftmax, kState };

static_assert(!sine_pte::kKeepsState && !softmax_pte::kKeepsState && state_pte::kKeepsState);
// Models without state share memory; those with state follow it.
static_assert(model_programs::kPlannedArenaOffsets[kSine] == 0);
static_assert(model_programs::kPlannedArenaOffsets[kSoftmax] == 0);
static_assert(model_programs::kPlannedArenaOffsets[kState] >= sine_pte::kPlannedArenaSize);
static_assert(model_programs::kPlannedArenaOffsets[kState] >= softmax_pte::kPlannedArenaSize);

alignas(torch_fusion::kArenaAlignment) uint8_t method_arena[model_programs::kMethodArenaSize];
alignas(torch_fusion::kArenaAlignment) uint8_t planned_arena[model_programs::kPlannedArenaSize];

bool pass = true;

void expect(bool condition, const char* what) {
  if (!condition) {
    console_text("FAIL: ");
    console_text(what);
    console_text("\n");
    pass = false;
  }
}

/// A program in its parts of the arenas.
class Loaded {
 public:
  Loaded(
      size_t index,
      const unsigned char* data,
      size_t size,
      size_t method_size,
      const size_t* buffer_sizes,
      const size_t* buffer_offsets,
      size_t buffer_count)
      : loader_(data, size),
        method_allocator_(
            static_cast<uint32_t>(method_size),
            method_arena + model_programs::kMethodArenaOffsets[index]),
        planned_memory_({place(index, buffer_sizes, buffer_offsets, buffer_count), buffer_count}),
        memory_manager_(&method_allocator_, &planned_memory_),
        program_(Program::load(&loader_)),
        method_(program_->load_method("forward", &memory_manager_)) {
    expect(method_.ok(), "load_method");
    expect(method_allocator_.used_size() == method_size, "size of the method arena");
  }

  /// Runs on one input and compares the first output.
  template <class Spec>
  void run(const Spec& spec, const void* input, const void* expected, const char* what) {
    TensorImpl tensor(
        static_cast<ScalarType>(spec.dtype),
        spec.dim,
        const_cast<int32_t*>(spec.sizes),
        const_cast<void*>(input),
        const_cast<uint8_t*>(spec.dim_order));
    Method& method = *method_;
    expect(method.set_input(EValue(Tensor(&tensor)), 0) == Error::Ok, "set_input");
    expect(method.execute() == Error::Ok, "execute");
    expect(torch_fusion::all_close(method.get_output(0).toTensor(), expected, 1e-5f, 1e-5f), what);
  }

 private:
  static constexpr size_t kMaxBuffers = 4;

  /// Fills buffers_.
  Span<uint8_t>* place(size_t index, const size_t* sizes, const size_t* offsets, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      buffers_[i] = {
          planned_arena + model_programs::kPlannedArenaOffsets[index] + offsets[i], sizes[i]};
    }
    return buffers_;
  }

  BufferDataLoader loader_;
  MemoryAllocator method_allocator_;
  Span<uint8_t> buffers_[kMaxBuffers];
  HierarchicalAllocator planned_memory_;
  MemoryManager memory_manager_;
  Result<Program> program_;
  Result<Method> method_;
};

#define LOAD(index, program)          \
  Loaded(                             \
      index,                          \
      program::data(),                \
      program::kSize,                 \
      program::kMethodArenaSize,      \
      program::kPlannedBufferSizes,   \
      program::kPlannedBufferOffsets, \
      program::kNumPlannedBuffers)

} // namespace

int main() {
  host_open();
  Loaded state = LOAD(kState, state_pte);
  Loaded sine = LOAD(kSine, sine_pte);
  Loaded softmax = LOAD(kSoftmax, softmax_pte);

  // The mean of what it has seen: first x, then (x + 3x) / 2.
  const float x[] = {1, -2, 0.5f, 4};
  const float three[] = {3, -6, 1.5f, 12};
  const float mean[] = {2, -4, 1, 8};
  state.run(state_pte::kInputs[0], x, x, "state, first");
  for (int turn = 0; turn < 2; ++turn) {
    sine.run(
        sine_pte::kInputs[0], sine_pte::kExampleInputs[0], sine_pte::kExampleOutputs[0], "sine");
    softmax.run(
        softmax_pte::kInputs[0],
        softmax_pte::kExampleInputs[0],
        softmax_pte::kExampleOutputs[0],
        "softmax");
  }
  state.run(state_pte::kInputs[0], three, mean, "state, second");

  HostReport report = {};
  report.pass = pass ? kHostReportPass : 0;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(pass ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return pass ? kExitPass : kExitMismatch;
}
