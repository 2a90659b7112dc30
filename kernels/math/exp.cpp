#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {
namespace math {

float exp(float x) {
  // Beyond these the result is infinite, or rounds to zero; NaN is neither.
  if (x > 88.7228394f) {
    return __builtin_inff();
  }
  if (!(x >= -103.972084f)) {
    return x < 0.0f ? 0.0f : x;
  }
  int32_t n;
  const float p = exp_reduced(x, n);
  // 2^n may be out of range where the result is not: two factors that are in.
  const int32_t half = n / 2;
  return p * as_float(static_cast<uint32_t>(half + 127) << 23) *
      as_float(static_cast<uint32_t>(n - half + 127) << 23);
}

} // namespace math
} // namespace native
} // namespace executor
} // namespace torch
