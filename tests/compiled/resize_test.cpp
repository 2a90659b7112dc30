/// Tests the inputs that a compiled model of dynamic shape takes, and that it computes smaller
/// ones.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "dynamic.h"

extern "C" void on_layer(const void*, int, const char*) {}

namespace {

dynamic_model_t model;
int failures = 0;

void hold(bool holds, const char* what) {
  if (!holds) {
    std::printf("not so: %s\n", what);
    ++failures;
  }
}

torch_fusion_status resize(const std::vector<int32_t>& sizes, size_t index = 0) {
  return dynamic_resize_input(&model, index, sizes.data(), sizes.size());
}

/// The program's third output is its input, and then twice the input.
void hold_computes(int32_t steps) {
  hold(resize({1, 3, steps}) == TORCH_FUSION_OK, "sizes within the bounds");
  const size_t count = 3 * static_cast<size_t>(steps);
  hold(dynamic_input_size(&model, 0) == count * sizeof(float), "the input's size");
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(i) - 5.0f;
  }
  hold(dynamic_set_input(&model, 0, x.data(), count * sizeof(float)) == TORCH_FUSION_OK, "input");
  hold(dynamic_run(&model) == TORCH_FUSION_OK, "run");
  const int32_t* const sizes = dynamic_output_shape(&model, 2);
  hold(sizes[0] == 1 && sizes[1] == 3 && sizes[2] == 2 * steps, "the output's sizes");
  const auto* const y = static_cast<const float*>(dynamic_output(&model, 2));
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < static_cast<size_t>(steps); ++i) {
      const float* const of_row = y + 2 * row * static_cast<size_t>(steps);
      const float expected = x[row * static_cast<size_t>(steps) + i];
      hold(of_row[i] == expected, "the input");
      hold(of_row[static_cast<size_t>(steps) + i] == 2.0f * expected, "twice the input");
    }
  }
}

} // namespace

int main() {
  hold(resize({1, 3, 5}) == TORCH_FUSION_INVALID_STATE, "before init");
  hold(dynamic_init(&model, sizeof(model)) == TORCH_FUSION_OK, "init");
  hold_computes(16);
  hold_computes(5);
  // Its elements would fit, but the module has no such dimension.
  hold(resize({1, 4, 5}) == TORCH_FUSION_INVALID_ARGUMENT, "another static size");
  hold(resize({2, 3, 5}) == TORCH_FUSION_INVALID_ARGUMENT, "another batch");
  hold(resize({1, 3, 17}) == TORCH_FUSION_INVALID_ARGUMENT, "too large");
  hold(resize({1, 3, 1}) == TORCH_FUSION_INVALID_ARGUMENT, "too small");
  hold(resize({1, 3, -2}) == TORCH_FUSION_INVALID_ARGUMENT, "negative");
  hold(resize({3, 5}) == TORCH_FUSION_INVALID_ARGUMENT, "other dimensions");
  hold(resize({}) == TORCH_FUSION_INVALID_ARGUMENT, "no dimensions");
  hold(
      dynamic_resize_input(&model, 0, nullptr, 3) == TORCH_FUSION_INVALID_ARGUMENT,
      "sizes of null");
  hold(resize({1, 3, 5}, 1) == TORCH_FUSION_INVALID_ARGUMENT, "an input that there isn't");
  // The refused call has changed nothing.
  hold(dynamic_input_size(&model, 0) == 15 * sizeof(float), "the input's size after refusals");
  hold_computes(2);
  return failures == 0 ? 0 : 1;
}
