#pragma once

#include <cstdint>

#include <executorch/runtime/platform/compiler.h>

#include "kernels/math/exp.h"

namespace torch::executor::native::math {

/**
 * x = 2^n (1 + f) for a positive, finite x, 1 + f from sqrt(1/2) to sqrt(2).
 *
 * @param[out] exponent n.
 * @returns f.
 */
ET_INLINE float log_parts(float x, float& exponent) {
  exponent = 0.0f;
  if (x < 0x1p-126f) {
    x *= 0x1p23f;
    exponent = -23.0f;
  }
  const uint32_t bits = as_bits(x);
  const uint32_t shift = (bits - 0x3f3504f3) & 0xff800000;
  exponent += static_cast<float>(static_cast<int32_t>(shift) / (1 << 23));
  return as_float(bits - shift) - 1.0f;
}

/// The natural logarithm for every float, at most 2 ulp from the exact value, as
/// are all here; -infinity at 0, NaN below.
float log(float x);

/// The logarithm to base 2.
float log2(float x);

/// The logarithm to base 10.
float log10(float x);

/// log(1 + x)
float log1p(float x);

} // namespace torch::executor::native::math
