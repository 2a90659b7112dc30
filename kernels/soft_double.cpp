#include "kernels/soft_double.h"

#include <cstring>

namespace torch::executor::native {

namespace {

constexpr int32_t kBias = 1023;
constexpr int32_t kDigits = 52;
constexpr uint64_t kImplicit = uint64_t{1} << kDigits;

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

int32_t exponent_of(uint64_t bits) {
  return static_cast<int32_t>(bits >> kDigits) & 0x7ff;
}

// value / 2^shift for 0 < shift < 64, to nearest.
ET_INLINE uint64_t rounded_shift(uint64_t value, int32_t shift) {
  const uint64_t quotient = value >> shift;
  // A half counts as more if the quotient is odd.
  const uint64_t rest = (value << (64 - shift)) | (quotient & 1);
  return quotient + (rest > uint64_t{1} << 63 ? 1 : 0);
}

} // namespace

float float_of(double value) {
  const uint64_t bits = bits_of(value);
  const uint32_t high = static_cast<uint32_t>(bits >> 32);
  const uint32_t low = static_cast<uint32_t>(bits);
  const int32_t exponent = exponent_of(bits) - kBias + 127;
  uint32_t result = 0;
  if (exponent > 0 && exponent < 255) {
    // A carry out of the digits counts up the exponent. A half counts as more if the number is odd.
    result = static_cast<uint32_t>(exponent) << 23 | (high & 0xfffff) << 3 | low >> 29;
    const uint32_t rest = low << 3 | (result & 1);
    result += rest > 0x80000000u ? 1 : 0;
  } else if (exponent >= 255) {
    const bool is_nan = (high << 1 | (low != 0 ? 1 : 0)) > 0xffe00000u;
    result = is_nan ? 0x7fc00000 : 0x7f800000;
  } else if (exponent > -24) {
    // The implicit one and thirty digits, the last of which represents all following ones.
    // Subnormal numbers have one digit less with each exponent below 1.
    const uint32_t digits =
        1u << 30 | (high & 0xfffff) << 10 | low >> 22 | ((low << 10) != 0 ? 1 : 0);
    const int32_t shift = 8 - exponent;
    const uint32_t quotient = digits >> shift;
    // A half counts as more if the quotient is odd.
    const uint32_t rest = digits << (32 - shift) | (quotient & 1);
    result = quotient + (rest > 0x80000000u ? 1 : 0);
  }
  result |= high & 0x80000000u;
  float nearest;
  std::memcpy(&nearest, &result, sizeof(nearest));
  return nearest;
}

float float_of_int(int64_t value) {
  const bool is_negative = value < 0;
  uint64_t magnitude =
      is_negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int32_t shift = (magnitude >> 24) != 0 ? 40 - __builtin_clzll(magnitude) : 0;
  if (shift > 0) {
    magnitude = rounded_shift(magnitude, shift);
  }
  // It is at most 2^24, so that this is exact, and so are the products with 2^shift.
  const float scale =
      static_cast<float>(1u << (shift / 2)) * static_cast<float>(1u << (shift - shift / 2));
  const float nearest = static_cast<float>(static_cast<uint32_t>(magnitude)) * scale;
  return is_negative ? -nearest : nearest;
}

int64_t int_of(double value) {
  const uint64_t bits = bits_of(value);
  const int32_t exponent = exponent_of(bits) - kBias;
  const bool is_negative = (bits >> 63) != 0;
  if (exponent < 0) {
    return 0;
  }
  if (exponent > 62) {
    // -2^63 has one, too.
    return bits == (uint64_t{0xc3e} << kDigits) ? INT64_MIN : 0;
  }
  const uint64_t digits = kImplicit | (bits & (kImplicit - 1));
  const uint64_t magnitude =
      exponent > kDigits ? digits << (exponent - kDigits) : digits >> (kDigits - exponent);
  return static_cast<int64_t>(is_negative ? 0 - magnitude : magnitude);
}

bool is_finite(double value) {
  return exponent_of(bits_of(value)) != 0x7ff;
}

double double_of(int64_t value) {
  if (value == 0) {
    return 0.0;
  }
  const uint64_t sign = static_cast<uint64_t>(value) & (uint64_t{1} << 63);
  const uint64_t magnitude =
      sign != 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int32_t zeros = __builtin_clzll(magnitude);
  const int32_t exponent = 63 - zeros;
  const uint64_t digits = rounded_shift(magnitude << zeros, 63 - kDigits);
  // The implicit one counts up the exponent, as does a carry.
  const uint64_t bits = sign + (static_cast<uint64_t>(exponent + kBias - 1) << kDigits) + digits;
  double result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

} // namespace torch::executor::native
