#include "kernels/math/log.h"

#include "kernels/math/exp.h"
#include "kernels/math/polynomial.h"

namespace torch::executor::native::math {

namespace {

// 1 / ln(base), and the logarithm of 2; each as a float and its rounding error.
struct Base {
  float scale;
  float scale_low;
  float two;
  float two_low;
};

// The logarithm of x + low, |low| at most half an ulp of x.
float logarithm(const Base& base, float x, float low) {
  if (!(x > 0.0f)) {
    return x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
  }
  if (x == __builtin_inff()) {
    return x;
  }
  float exponent;
  const float f = log_parts(x, exponent);
  // log(1 + f) = f + g; (log(1 + f) - f + f^2 / 2) / f^3 is the polynomial.
  static constexpr float kCoefficients[] = {
      0x1.1d8ea6p-4f,
      -0x1.d635bcp-4f,
      0x1.dea282p-4f,
      -0x1.fcf4c6p-4f,
      0x1.23d21ap-3f,
      -0x1.555b4ap-3f,
      0x1.999d5ap-3f,
      -0x1.fffffcp-3f,
      0x1.555554p-2f};
  float g = f * f * __builtin_fmaf(f, polynomial(kCoefficients, f), -0.5f);
  if (low != 0.0f) {
    g += low / x;
  }
  float sum = __builtin_fmaf(f, base.scale_low, exponent * base.two_low);
  sum = __builtin_fmaf(g, base.scale, sum);
  if (exponent == 0.0f) {
    return __builtin_fmaf(f, base.scale, sum);
  }
  return __builtin_fmaf(exponent, base.two, __builtin_fmaf(f, base.scale, sum));
}

constexpr Base kE = {1.0f, 0.0f, 0x1.62e430p-1f, -0x1.05c610p-29f};
constexpr Base kTwo = {0x1.715476p+0f, 0x1.4ae0c0p-26f, 1.0f, 0.0f};
constexpr Base kTen = {0x1.bcb7b2p-2f, -0x1.5b235ep-27f, 0x1.344136p-2f, -0x1.ec10c0p-27f};

} // namespace

float log(float x) {
  return logarithm(kE, x, 0.0f);
}

float log2(float x) {
  return logarithm(kTwo, x, 0.0f);
}

float log10(float x) {
  return logarithm(kTen, x, 0.0f);
}

float log1p(float x) {
  const float sum = 1.0f + x;
  if (sum == 1.0f) {
    return x;
  }
  if (!(sum < __builtin_inff())) {
    return sum;
  }
  // The rounding error of the sum, which is exact because the larger operand comes first.
  const float low = x > 1.0f ? 1.0f - (sum - x) : x - (sum - 1.0f);
  return logarithm(kE, sum, low);
}

} // namespace torch::executor::native::math
