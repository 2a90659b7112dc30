#include "kernels/math/exp.h"

namespace torch::executor::native::math {

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
  return scale(p, n);
}

float expm1(float x) {
  if (x > 88.7228394f) {
    return __builtin_inff();
  }
  if (x < -18.0f) {
    return -1.0f;
  }
  int32_t n;
  float r;
  const float q = exp_parts(x, n, r);
  const float reduced = __builtin_fmaf(r * r, q, r);
  if (n > 24) {
    return scale(1.0f + reduced, n); // 1 is less than half an ulp.
  }
  // NaN has a meaningless n, and 2^n some value.
  const float power = as_float(static_cast<uint32_t>(n + 127) << 23);
  return n == 0 ? reduced : __builtin_fmaf(power, reduced, power - 1.0f);
}

} // namespace torch::executor::native::math
