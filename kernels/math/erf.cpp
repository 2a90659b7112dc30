#include "kernels/math/erf.h"

#include "kernels/math/exp.h"
#include "kernels/math/polynomial.h"

namespace torch::executor::native::math {

float erf(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (magnitude < 1.0f) {
    // erf(x) / x - 1 in x^2.
    static constexpr float kCoefficients[] = {
        0x1.4a5690p-14f,
        -0x1.a45088p-11f,
        0x1.541270p-8f,
        -0x1.b7fabap-6f,
        0x1.ce2d10p-4f,
        -0x1.81273ep-2f,
        0x1.06eba8p-3f};
    return __builtin_fmaf(polynomial(kCoefficients, x * x), x, x);
  }
  if (magnitude >= 4.0f) {
    return __builtin_copysignf(1.0f, x);
  }
  // log(1 - erf(x)) in x - 2.5; NaN stays.
  static constexpr float kCoefficients[] = {
      0x1.b77830p-20f,
      -0x1.bec71ap-17f,
      0x1.442efcp-14f,
      -0x1.b887c8p-12f,
      0x1.1bcf88p-9f,
      -0x1.63d00cp-7f,
      -0x1.e3460ap-1f,
      -0x1.569252p+2f,
      -0x1.f3a2dcp+2f};
  const float complement = exp_nonpositive(polynomial(kCoefficients, magnitude - 2.5f));
  return __builtin_copysignf(1.0f - complement, x);
}

} // namespace torch::executor::native::math
