#include "kernels/math/round.h"

#include "kernels/math/exp.h"

namespace torch::executor::native::math {

namespace {

// A positive number's significand as an integer; its exponent counts from 1 as for subnormals.
uint32_t significand(float magnitude, int32_t& exponent) {
  const uint32_t bits = as_bits(magnitude);
  exponent = static_cast<int32_t>(bits >> 23);
  if (exponent == 0) {
    exponent = 1;
    return bits;
  }
  return (bits & 0x7fffff) | 0x800000;
}

} // namespace

float fmod(float x, float y) {
  const float dividend = __builtin_fabsf(x);
  const float divisor = __builtin_fabsf(y);
  if (!(dividend < __builtin_inff()) || !(divisor > 0.0f)) {
    return __builtin_nanf("");
  }
  if (dividend < divisor) {
    return x;
  }
  int32_t exponent;
  int32_t last;
  uint32_t remainder = significand(dividend, exponent);
  const uint32_t modulus = significand(divisor, last);
  // Eight digits at a time: a remainder is less than 2^24.
  remainder %= modulus;
  while (exponent > last) {
    const int32_t digits = exponent - last < 8 ? exponent - last : 8;
    remainder = (remainder << digits) % modulus;
    exponent -= digits;
  }
  // remainder * 2^(last - 150): the two factors are exact, and so is their product.
  const float ulp = last > 23 ? as_float(static_cast<uint32_t>(last - 23) << 23)
                              : as_float(uint32_t{1} << (last - 1));
  return __builtin_copysignf(static_cast<float>(remainder) * ulp, x);
}

} // namespace torch::executor::native::math
