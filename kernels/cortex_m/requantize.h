#pragma once

#include <cstdint>

#include "kernels/util/checks.h"

namespace torch::executor::native::cortex_m {

/**
 * A factor in fixed point: multiplier * 2^shift / 2^31, as `quantize_multiplier_aot` of the
 * dialect's Python (executorch.backends.cortex_m.passes.passes_utils) makes it.
 */
struct Factor {
  int32_t multiplier;
  int32_t shift;
};

/// Shifts for which requantize() is defined.
constexpr int32_t kMinShift = -62;
constexpr int32_t kMaxShift = 31;

/// Does the same as requantize() with a factor of any shift and sign.
int32_t requantize_wide(int32_t value, Factor factor);

/// Returns `value * factor`, rounded as by `requantize_cmsis` of the dialect's Python: the product
/// to nearest, halves up; its right shift to nearest, halves away from zero. In 64 bits, modulo
/// 2^64.
inline int32_t requantize(int32_t value, Factor factor) {
  if (factor.shift > 0 || factor.shift < -32 || factor.multiplier < 0) {
    return requantize_wide(value, factor);
  }
  // Products are below 2^62, and the results at most 2^31 - 2.
  const int64_t product = int64_t{value} * factor.multiplier + (int64_t{1} << 30);
  int32_t result = static_cast<int32_t>(product >> 31);
  if (factor.shift < 0) {
    result += result >> 31;
    result = ((result >> (-factor.shift - 1)) + 1) >> 1;
  }
  return result;
}

/// Returns the real number that a factor represents; its shift may be in [-62, 31].
float scale_of(Factor factor);

/// A product in single precision, which the compiler does not fuse with a sum that follows: the
/// dialect's Python rounds both.
inline float rounded(float product) {
#ifdef __ARM_FP
  __asm__("" : "+t"(product));
#endif
  return product;
}

/// Returns a sum modulo 2^32.
inline int32_t wrapping_add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

/// Returns a product modulo 2^32.
inline int32_t wrapping_mul(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

/// The smallest and largest value of an output.
struct Range {
  int32_t min;
  int32_t max;

  int8_t clamp(int32_t value) const {
    return static_cast<int8_t>(value < min ? min : value > max ? max : value);
  }
};

/// Takes a factor from a program's integers. Fails the context (InvalidArgument) and returns false
/// for a shift out of range or a multiplier of more than 32 bits.
bool check_factor(KernelRuntimeContext& ctx, int64_t multiplier, int64_t shift, Factor& factor);

/// Takes an offset or zero point in [-limit, limit), by default of at most 9 bits. Fails the
/// context (InvalidArgument) and returns false otherwise.
bool check_offset(KernelRuntimeContext& ctx, int64_t value, int32_t& offset, int32_t limit = 0x100);

/// Takes a range within int8. Fails the context (InvalidArgument) and returns false otherwise.
bool check_range(KernelRuntimeContext& ctx, int64_t min, int64_t max, Range& range);

/// Fails the context (InvalidType) and returns false unless all tensors are int8.
bool int8_or_fail(KernelRuntimeContext& ctx, const Tensor& tensor);

template <class... Tensors>
bool check_int8(KernelRuntimeContext& ctx, const Tensors&... tensors) {
  return (int8_or_fail(ctx, tensors) && ...);
}

} // namespace torch::executor::native::cortex_m
