/// Five programs, compiled, in one image, with all of their methods, which run by turns in memory
/// that they share: two whose methods have the same names, one that keeps state, which the others
/// must leave alone, and one of dynamic shape.

#include <string.h>

#include <span>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"
#include "firmware/tensor_text.h"
#include "model_programs.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

// These are in the order of the image's `models`, and of the methods of each.
enum {
  kCodec,
  kCodecEncode,
  kCodecDecode,
  kCompander,
  kCompanderEncode,
  kCompanderDecode,
  kState,
  kDynamic,
  kSine,
};

static_assert(model_programs::kCount == kSine + 1);
// Models without state share memory; those with state follow it.
static_assert(model_programs::kInstanceOffsets[kCodecDecode] == 0);
static_assert(model_programs::kInstanceOffsets[kCompanderEncode] == 0);
static_assert(model_programs::kInstanceOffsets[kDynamic] == 0);
static_assert(model_programs::kInstanceOffsets[kState] >= sizeof(dynamic_model_t));
static_assert(
    model_programs::kInstancesSize < sizeof(dynamic_model_t) + sizeof(state_model_t) + 16);

model_programs::Instances instances;
bool pass = true;

void expect(bool condition, const char* what) {
  if (!condition) {
    console_text("FAIL: ");
    console_text(what);
    console_text("\n");
    pass = false;
  }
}

template <class Spec>
bool is_close(const Spec& spec, const void* output, const void* expected) {
  TensorImpl tensor(
      static_cast<ScalarType>(spec.dtype),
      spec.dim,
      const_cast<int32_t*>(spec.sizes),
      const_cast<void*>(output),
      const_cast<uint8_t*>(spec.dim_order));
  return torch_fusion::all_close(Tensor(&tensor), expected, 1e-5f, 1e-5f);
}

// A model that keeps no state, on the example that is embedded beside it: what PyTorch computes.
#define RUN_EXAMPLE(name)                                                                        \
  do {                                                                                           \
    auto* const model = instances.name();                                                        \
    for (size_t i = 0; i < name##_pte::kNumInputs; ++i) {                                        \
      const size_t size = name##_pte::kInputs[i].nbytes;                                         \
      expect(                                                                                    \
          name##_set_input(model, i, name##_pte::kExampleInputs[i], size) == TORCH_FUSION_OK,    \
          #name "_set_input");                                                                   \
    }                                                                                            \
    expect(name##_run(model) == TORCH_FUSION_OK, #name "_run");                                  \
    for (size_t i = 0; i < name##_pte::kNumOutputs; ++i) {                                       \
      expect(name##_output_size(model, i) == name##_pte::kOutputs[i].nbytes, #name " size");     \
      expect(                                                                                    \
          is_close(                                                                              \
              name##_pte::kOutputs[i], name##_output(model, i), name##_pte::kExampleOutputs[i]), \
          #name);                                                                                \
    }                                                                                            \
  } while (false)

/// The signal of three channels has fewer steps than the largest number.
void run_few_steps() {
  constexpr int32_t kSteps = 5;
  const int32_t sizes[] = {1, 3, kSteps};
  float x[3 * kSteps];
  for (int32_t i = 0; i < 3 * kSteps; ++i) {
    x[i] = static_cast<float>(i) - 4;
  }
  dynamic_model_t* const model = instances.dynamic();
  const int32_t too_many[] = {1, 3, 17};
  expect(dynamic_resize_input(model, 0, too_many, 3) != TORCH_FUSION_OK, "17 steps");
  expect(dynamic_resize_input(model, 0, sizes, 3) == TORCH_FUSION_OK, "5 steps");
  expect(dynamic_set_input(model, 0, x, sizeof(x)) == TORCH_FUSION_OK, "input of 5 steps");
  expect(dynamic_run(model) == TORCH_FUSION_OK, "dynamic_run");
  // The third output is x beside 2 * x.
  const std::span<const int32_t, 3> shape(dynamic_output_shape(model, 2), 3);
  expect(shape[0] == 1 && shape[1] == 3 && shape[2] == 2 * kSteps, "shape of 5 steps");
  const auto* const y = static_cast<const float*>(dynamic_output(model, 2));
  for (int32_t i = 0; i < 3 * kSteps; ++i) {
    const int32_t at = i / kSteps * 2 * kSteps + i % kSteps;
    expect(y[at] == x[i] && y[at + kSteps] == 2 * x[i], "5 steps");
  }
}

/// The mean of what the model has seen.
void run_state(const float (&x)[4], const float (&mean)[4], const char* what) {
  state_model_t* const model = instances.state();
  expect(state_set_input(model, 0, x, sizeof(x)) == TORCH_FUSION_OK, "state_set_input");
  expect(state_run(model) == TORCH_FUSION_OK, "state_run");
  expect(memcmp(state_output(model, 0), mean, sizeof(mean)) == 0, what);
}

} // namespace

int main() {
  host_open();
  run_state({1, -2, 0.5f, 4}, {1, -2, 0.5f, 4}, "state, first");
  for (int turn = 0; turn < 2; ++turn) {
    RUN_EXAMPLE(codec);
    RUN_EXAMPLE(compander);
    RUN_EXAMPLE(codec_encode);
    RUN_EXAMPLE(compander_encode);
    RUN_EXAMPLE(dynamic);
    RUN_EXAMPLE(codec_decode);
    RUN_EXAMPLE(compander_decode);
    run_few_steps();
    RUN_EXAMPLE(sine_int8);
    // The signal has all of its steps again, after smaller ones.
    RUN_EXAMPLE(dynamic);
  }
  // (x + 3x) / 2.
  run_state({3, -6, 1.5f, 12}, {2, -4, 1, 8}, "state, second");

  HostReport report = {};
  report.pass = pass ? kHostReportPass : 0;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(pass ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return pass ? kExitPass : kExitMismatch;
}
