#pragma once

#include <cstddef>

#include <executorch/runtime/platform/compiler.h>

namespace torch::executor::native::math {

/// The value at x of the polynomial with these coefficients, that of the highest
/// power first (Horner's scheme). Coefficients here interpolate their functions
/// at the Chebyshev nodes of the interval.
template <size_t kCount>
ET_INLINE float polynomial(const float (&coefficients)[kCount], float x) {
  float value = coefficients[0];
  for (size_t i = 1; i < kCount; ++i) {
    value = __builtin_fmaf(value, x, coefficients[i]);
  }
  return value;
}

} // namespace torch::executor::native::math
