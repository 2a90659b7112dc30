#pragma once

#include <cstdint>

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// How quantize() maps a float to an integer.
struct Quantization {
  float inverse_scale;
  float zero_point;
  float min;
  float max;

  /// The nearest integer, halves to even; NaN gives 0.
  int32_t apply(float value) const;
};

/// The single-precision number nearest to 1 / scale, for a normal scale whose inverse is normal.
float inverse(double scale);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
