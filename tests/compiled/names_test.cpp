/// The names of a model's inputs and results are constants in the headers of a compiled model and
/// of one in an image.

#include <cstdio>

#include "named.h"
#include "named_pte.h"

static_assert(NAMED_INPUT_INDEX_SOUND == named_pte::kInput_sound, "both say the same");
static_assert(
    NAMED_INPUT_INDEX_FEATURES_MEAN == named_pte::kInput_features_mean,
    "both say the same");
static_assert(
    NAMED_INPUT_INDEX_FEATURES_GAIN == named_pte::kInput_features_gain,
    "both say the same");
static_assert(NAMED_OUTPUT_INDEX_SCALED == named_pte::kOutput_scaled, "both say the same");
static_assert(NAMED_OUTPUT_INDEX_CENTRE == named_pte::kOutput_centre, "both say the same");

namespace {

named_model_t model;

float* input(size_t index) {
  return static_cast<float*>(named_input(&model, index));
}

const float* output(size_t index) {
  return static_cast<const float*>(named_output(&model, index));
}

} // namespace

int main() {
  named_init(&model, sizeof(model));
  const bool sizes_are_right =
      named_input_size(&model, NAMED_INPUT_INDEX_SOUND) == 5 * sizeof(float) &&
      named_input_size(&model, NAMED_INPUT_INDEX_FEATURES_MEAN) == 3 * sizeof(float) &&
      named_input_size(&model, NAMED_INPUT_INDEX_FEATURES_GAIN) == sizeof(float);
  if (!sizes_are_right) {
    std::printf("an input has the name of another one\n");
    return 1;
  }
  for (int i = 0; i < 5; ++i) {
    input(NAMED_INPUT_INDEX_SOUND)[i] = static_cast<float>(i);
  }
  for (int i = 0; i < 3; ++i) {
    input(NAMED_INPUT_INDEX_FEATURES_MEAN)[i] = 100.0f;
  }
  input(NAMED_INPUT_INDEX_FEATURES_GAIN)[0] = 3.0f;
  if (named_run(&model) != TORCH_FUSION_OK || output(NAMED_OUTPUT_INDEX_SCALED)[4] != 12.0f ||
      output(NAMED_OUTPUT_INDEX_CENTRE)[0] != 310.0f) {
    std::printf("not what the module computes\n");
    return 1;
  }
  return 0;
}
