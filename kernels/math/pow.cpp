#include "kernels/math/pow.h"

#include "kernels/math/exp.h"
#include "kernels/math/log.h"
#include "kernels/math/polynomial.h"
#include "kernels/math/round.h"

namespace torch::executor::native::math {

namespace {

// A number as a sum: 48 bits.
struct Sum {
  float high;
  float low;
};

// log2(x) for a positive, finite x: its error must not show after a multiplication by 128 /
// log2(x).
Sum log2_sum(float x) {
  float exponent;
  const float f = log_parts(x, exponent);
  // log(1 + f) = 2 atanh(s), s = f / (2 + f); s_low is the rounding error of s.
  const float t = 2.0f + f;
  const float t_low = f - (t - 2.0f);
  const float s = f / t;
  const float s_low = __builtin_fmaf(-s, t_low, __builtin_fmaf(-s, t, f)) / t;
  // atanh s = s + s^3 / 3 + s^5 polynomial(s^2); the first two terms exactly enough.
  static constexpr float kCoefficients[] = {0x1.d81032p-4f, 0x1.247a16p-3f, 0x1.9999a4p-3f};
  constexpr float kThird = 0x1.555556p-2f;
  constexpr float kThirdLow = -0x1.555556p-27f;
  const float square = s * s;
  const float square_low = __builtin_fmaf(s, s, -square) + 2.0f * s * s_low;
  const float cube = s * square;
  const float cube_low = __builtin_fmaf(s, square, -cube) + s * square_low + s_low * square;
  const float third = cube * kThird;
  float low = __builtin_fmaf(cube, kThird, -third) + cube * kThirdLow + cube_low * kThird;
  low += cube * square * polynomial(kCoefficients, square) + s_low;
  const float atanh = s + third;
  low += (s - atanh) + third;
  // 2 / ln 2
  constexpr float kScale = 0x1.715476p+1f;
  constexpr float kScaleLow = 0x1.4ae0c0p-25f;
  const float product = atanh * kScale;
  low = __builtin_fmaf(atanh, kScale, -product) + __builtin_fmaf(atanh, kScaleLow, low * kScale);
  const float sum = exponent + product;
  low += exponent == 0.0f ? 0.0f : (exponent - sum) + product;
  const float high = sum + low;
  return {high, (sum - high) + low};
}

// x^y for a positive, finite x, and a finite y.
float positive_pow(float x, float y) {
  const Sum logarithm = log2_sum(x);
  const float product = y * logarithm.high;
  if (product > 129.0f) {
    return __builtin_inff();
  }
  if (product < -152.0f) {
    return 0.0f;
  }
  const float low = __builtin_fmaf(y, logarithm.low, __builtin_fmaf(y, logarithm.high, -product));
  const float n = round_to_even(product);
  const float r = (product - n) + low;
  // (2^r - 1) / r
  static constexpr float kCoefficients[] = {
      0x1.44138ap-13f,
      0x1.5f0890p-10f,
      0x1.3b2a54p-7f,
      0x1.c6af6cp-5f,
      0x1.ebfbe0p-3f,
      0x1.62e430p-1f};
  const float power = __builtin_fmaf(polynomial(kCoefficients, r), r, 1.0f);
  return scale(power, static_cast<int32_t>(n));
}

} // namespace

float pow(float x, float y) {
  if (x == 1.0f || y == 0.0f) {
    return 1.0f;
  }
  if (x != x || y != y) {
    return x + y;
  }
  const float magnitude = __builtin_fabsf(x);
  const float exponent = __builtin_fabsf(y);
  if (exponent == __builtin_inff()) {
    return magnitude == 1.0f ? 1.0f : (magnitude > 1.0f) == (y > 0.0f) ? exponent : 0.0f;
  }
  const bool is_integer = trunc(y) == y;
  const bool is_odd = is_integer && exponent < 0x1p24f && (static_cast<int32_t>(exponent) & 1) != 0;
  float power;
  if (magnitude == 0.0f || magnitude == __builtin_inff()) {
    power = (magnitude == 0.0f) == (y < 0.0f) ? __builtin_inff() : 0.0f;
  } else if (x < 0.0f && !is_integer) {
    return __builtin_nanf("");
  } else {
    power = positive_pow(magnitude, y);
  }
  return is_odd ? __builtin_copysignf(power, x) : power;
}

} // namespace torch::executor::native::math
