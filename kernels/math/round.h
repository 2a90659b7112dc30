#pragma once

#include <cstdint>

#include <executorch/runtime/platform/compiler.h>

namespace torch::executor::native::math {

/// The nearest integer, the even one of two.
ET_INLINE float round_to_even(float x) {
  // From 2^23 on all floats are integers. Adding it leaves no bits for a fraction.
  constexpr float kInteger = 8388608.0f;
  const float magnitude = __builtin_fabsf(x);
  if (!(magnitude < kInteger)) {
    return x;
  }
  return __builtin_copysignf((magnitude + kInteger) - kInteger, x);
}

/// The largest integer that is not above x.
ET_INLINE float floor(float x) {
  const float nearest = round_to_even(x);
  return nearest > x ? nearest - 1.0f : nearest;
}

/// The smallest integer that is not below x.
ET_INLINE float ceil(float x) {
  return -floor(-x);
}

/// x without its fraction.
ET_INLINE float trunc(float x) {
  return __builtin_copysignf(floor(__builtin_fabsf(x)), x);
}

/// x, or the bound that it is beyond; NaN stays.
ET_INLINE float clamp(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

/// The square root, correctly rounded; NaN below 0.
ET_INLINE float sqrt(float x) {
#if defined(__ARM_FP) && defined(__thumb__)
  // Compilers would call the C library's as well, which sets errno.
  float root;
  __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
  return root;
#else
  return __builtin_sqrtf(x);
#endif
}

/// The remainder of x / y with the sign of x, exact; NaN where y is 0 or x infinite.
float fmod(float x, float y);

} // namespace torch::executor::native::math
