#include "kernels/cortex_m/quantize.h"

#include <cstring>

#include "kernels/soft_double.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

int32_t Quantization::apply(float value) const {
  // Adding 1.5 * 2^23 rounds to an integer, halves to even; larger numbers are clamped first, which
  // changes no result as zero points are small.
  constexpr float kRound = 12582912.0f;
  constexpr float kLarge = 1048576.0f;
  float scaled = value * inverse_scale;
  scaled = scaled < -kLarge ? -kLarge : scaled > kLarge ? kLarge : scaled;
  const float rounded = ((scaled + kRound) - kRound) + zero_point;
  if (!(rounded >= min)) {
    return rounded < min ? static_cast<int32_t>(min) : 0;
  }
  return static_cast<int32_t>(rounded > max ? max : rounded);
}

float inverse(double scale) {
  // scale = high + low, with 24 and 29 bits; the quotient by `high` is corrected for `low` and for
  // its own rounding.
  uint64_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  constexpr uint64_t kLowBits = (uint64_t{1} << 29) - 1;
  const uint64_t high_bits = bits & ~kLowBits;
  double exact_high;
  std::memcpy(&exact_high, &high_bits, sizeof(exact_high));
  const float high = float_of(exact_high);
  const float quotient = 1.0f / high;
  const float low_part = static_cast<float>(static_cast<uint32_t>(bits & kLowBits)) *
      (1.0f / 4503599627370496.0f); // low / 2^exponent
  // 2^exponent is what is left of `high` without its mantissa.
  uint32_t power_bits;
  std::memcpy(&power_bits, &high, sizeof(power_bits));
  power_bits &= 0xff800000u;
  float power;
  std::memcpy(&power, &power_bits, sizeof(power));
  const float low = low_part * power;
  const float rest = __builtin_fmaf(-quotient, low, __builtin_fmaf(-quotient, high, 1.0f));
  return __builtin_fmaf(rest, quotient, quotient);
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
