#include "kernels/math/hyperbolic.h"

#include "kernels/math/exp.h"
#include "kernels/math/log.h"
#include "kernels/math/polynomial.h"
#include "kernels/math/round.h"

namespace torch::executor::native::math {

namespace {

// Beyond, log(2 x) is as exact as asinh and acosh.
constexpr float kLarge = 4096.0f;
constexpr float kLog2 = 0.693147181f;

// e^x / 2, which overflows later than e^x.
float half_exp(float x) {
  if (x > 90.0f) {
    return __builtin_inff();
  }
  int32_t n;
  const float p = exp_reduced(x, n);
  return scale(p, n - 1);
}

// x + x^3 polynomial(x^2)
template <size_t kCount>
float odd(const float (&coefficients)[kCount], float x) {
  const float square = x * x;
  return __builtin_fmaf(polynomial(coefficients, square) * square, x, x);
}

} // namespace

float sinh(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (magnitude < 1.0f) {
    static constexpr float kCoefficients[] = {
        0x1.78a70ep-19f, 0x1.a00900p-13f, 0x1.11111ep-7f, 0x1.555556p-3f};
    return odd(kCoefficients, x);
  }
  const float half = half_exp(magnitude);
  return __builtin_copysignf(half - 0.25f / half, x);
}

float cosh(float x) {
  const float half = half_exp(__builtin_fabsf(x));
  return half + 0.25f / half;
}

float asinh(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (magnitude < 0.5f) {
    static constexpr float kCoefficients[] = {
        0x1.459970p-7f,
        -0x1.504f9cp-6f,
        0x1.ee142ep-6f,
        -0x1.6d9bf0p-5f,
        0x1.3332eap-4f,
        -0x1.555556p-3f};
    return odd(kCoefficients, x);
  }
  if (magnitude > kLarge) {
    return __builtin_copysignf(log(magnitude) + kLog2, x);
  }
  const float square = magnitude * magnitude;
  return __builtin_copysignf(log1p(magnitude + square / (1.0f + sqrt(1.0f + square))), x);
}

float acosh(float x) {
  if (!(x >= 1.0f)) {
    return __builtin_nanf("");
  }
  if (x > kLarge) {
    return log(x) + kLog2;
  }
  const float t = x - 1.0f;
  if (t == 0.0f) {
    return 0.0f;
  }
  // The rounding errors of the root and the sum are added to first order.
  const float square = __builtin_fmaf(t, t, t + t);
  const float root = sqrt(square);
  const float sum = root + t;
  const float rest = (t - (sum - root)) + __builtin_fmaf(-root, root, square) / (root + root);
  return log1p(sum) + rest / (1.0f + sum);
}

float atanh(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (magnitude < 0.5f) {
    static constexpr float kCoefficients[] = {
        0x1.4392f4p-3f,
        0x1.3208eep-6f,
        0x1.684f14p-4f,
        0x1.6ecd06p-4f,
        0x1.c779c8p-4f,
        0x1.2490cep-3f,
        0x1.99999ep-3f,
        0x1.555556p-2f};
    return odd(kCoefficients, x);
  }
  return __builtin_copysignf(0.5f * log1p((magnitude + magnitude) / (1.0f - magnitude)), x);
}

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

namespace {

ET_INLINE float sigmoid_of(float x) {
  // e^-|x| does not overflow.
  const float e = exp_nonpositive(-__builtin_fabsf(x));
  const float numerator = x < 0.0f ? e : 1.0f;
  // a / (1 + e) = a - e (a / (1 + e)): the error of the quotient on the right counts e times.
  return __builtin_fmaf(-e, numerator / (1.0f + e), numerator);
}

} // namespace

float sigmoid(float x) {
  return sigmoid_of(x);
}

void sigmoid(const float* in, float* out, size_t count) {
  for (; count > 0; --count) {
    *out++ = sigmoid_of(*in++);
  }
}

} // namespace torch::executor::native::math
