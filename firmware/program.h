#pragma once

#include <stddef.h>
#include <stdint.h>

namespace torch_fusion {

struct TensorSpec;

/// A program of an image as a value, of what the namespace in its NAME_pte.h says of it: for what
/// works on any of several.
struct Program {
  const char* name;
  uint32_t pte_size;
  uint32_t pte_crc32;
  size_t num_inputs;
  const TensorSpec* inputs;
  size_t inputs_size;
  size_t num_outputs;
  const TensorSpec* outputs;
  const unsigned char* const* example_inputs;
  /// Null if there is nothing to compare with.
  const unsigned char* const* example_outputs;
  float atol;
  float rtol;
};

} // namespace torch_fusion

/// Defines the torch_fusion::Program of a namespace NAME_pte.
#define TORCH_FUSION_PROGRAM(pte) \
  {                               \
      pte::kName,                 \
      pte::kPteSize,              \
      pte::kPteCrc32,             \
      pte::kNumInputs,            \
      pte::kInputs,               \
      pte::kInputsSize,           \
      pte::kNumOutputs,           \
      pte::kOutputs,              \
      pte::kExampleInputs,        \
      pte::kExampleOutputs,       \
      pte::kAtol,                 \
      pte::kRtol,                 \
  }
