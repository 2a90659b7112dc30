#pragma once

#include <cstdint>
#include <cstring>

#include <executorch/runtime/platform/compiler.h>

namespace torch::executor::native::math {

/// The float with these bits (IEEE 754 binary32), and the bits of a float.
ET_INLINE float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

ET_INLINE uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/**
 * e^x = (1 + r + r^2 q) 2^n for |x| < 2^21, |r| <= ln 2 / 2. NaN gives NaN and a
 * meaningless exponent.
 *
 * x = n ln 2 + r; ln 2 is split in two so that n times the first part is exact
 * (W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980,
 * chapter 6). q is interpolated at the Chebyshev nodes of the interval.
 *
 * @param[out] exponent n.
 * @param[out] r r.
 * @returns q.
 */
ET_INLINE float exp_parts(float x, int32_t& exponent, float& r) {
  // Adding 1.5 * 2^23 rounds to an integer in the low bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = __builtin_fmaf(x, 1.44269504088896341f, kRound);
  exponent = static_cast<int32_t>(as_bits(shifted) - as_bits(kRound));
  const float n = shifted - kRound;
  r = __builtin_fmaf(n, -0.693145751953125f, x);
  r = __builtin_fmaf(n, -1.42860682030941723e-6f, r);
  float q = 0x1.6d117cp-10f;
  q = __builtin_fmaf(q, r, 0x1.120be2p-7f);
  q = __builtin_fmaf(q, r, 0x1.555518p-5f);
  q = __builtin_fmaf(q, r, 0x1.5554dcp-3f);
  return __builtin_fmaf(q, r, 0.5f);
}

/**
 * e^x = p * 2^n for |x| < 2^21, p in [0.7, 1.42] with a relative error below
 * 1e-7; otherwise as exp_parts().
 *
 * @param[out] exponent n.
 * @returns p.
 */
ET_INLINE float exp_reduced(float x, int32_t& exponent) {
  float r;
  float p = exp_parts(x, exponent, r);
  p = __builtin_fmaf(p, r, 1.0f);
  return __builtin_fmaf(p, r, 1.0f);
}

/// p * 2^n for |n| <= 252; 2^n may be out of range where the result is not.
ET_INLINE float scale(float p, int32_t n) {
  const int32_t half = n / 2;
  return p * as_float(static_cast<uint32_t>(half + 127) << 23) *
      as_float(static_cast<uint32_t>(n - half + 127) << 23);
}

/// e^x for x <= 0 or NaN, inline for loops: at most 2 ulp, and 0 where the
/// result would be less than the smallest normal number.
ET_INLINE float exp_nonpositive(float x) {
  constexpr float kLowest = -87.3365402f;
  if ET_UNLIKELY (!(x >= kLowest)) {
    return x < kLowest ? 0.0f : x;
  }
  int32_t n;
  const float p = exp_reduced(x, n);
  return as_float(as_bits(p) + (static_cast<uint32_t>(n) << 23));
}

/// e^x for every float, at most 2 ulp from the exact value, subnormal results
/// included.
float exp(float x);

/// e^x - 1 for every float, at most 2 ulp from the exact value.
float expm1(float x);

} // namespace torch::executor::native::math
