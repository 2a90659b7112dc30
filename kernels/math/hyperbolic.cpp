#include "kernels/math/hyperbolic.h"

#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {
namespace math {

float tanh(float x) {
  const float magnitude = __builtin_fabsf(x);
  float result;
  if (magnitude < 0.625f) {
    // (tanh x - x) / x^3 in x^2, interpolated at the interval's Chebyshev nodes.
    const float square = x * x;
    float p = 0x1.2c83c0p-9f;
    p = __builtin_fmaf(p, square, -0x1.116a16p-7f);
    p = __builtin_fmaf(p, square, 0x1.64a976p-6f);
    p = __builtin_fmaf(p, square, -0x1.ba08c4p-5f);
    p = __builtin_fmaf(p, square, 0x1.1110eap-3f);
    p = __builtin_fmaf(p, square, -0x1.555556p-2f);
    return __builtin_fmaf(p * square, x, x);
  }
  if (magnitude > 9.1f) {
    result = 1.0f; // Nearer to 1 than to the float below.
  } else {
    // NaN comes here and stays.
    const float e = exp(magnitude + magnitude);
    result = 1.0f - 2.0f / (e + 1.0f);
  }
  return __builtin_copysignf(result, x);
}

float sigmoid(float x) {
  // e^-|x| does not overflow.
  const float e = exp_nonpositive(-__builtin_fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

} // namespace math
} // namespace native
} // namespace executor
} // namespace torch
