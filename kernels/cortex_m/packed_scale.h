#pragma once

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/packed.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// A channel's way from a sum to an output saturated to int8, for layers that are not wide. Sums
/// are less than 2^30.
struct Scale {
  int32_t multiplier;
  /// All but the last bit of the shift to the right.
  int32_t shift;
  /// Rounds the last bit, and adds the output's zero point.
  int32_t addend;

  ET_INLINE int8_t apply(int32_t sum) const {
    int32_t high = multiply_rounded(wrapping_add(sum, sum), multiplier);
    // Halves are rounded away from zero.
    high += high >> 31;
    return static_cast<int8_t>(saturated_half((high >> shift) + addend));
  }
};

/// What Scale::addend is.
ET_INLINE int32_t addend_of(const PackedLayer& layer) {
  return 1 + 2 * layer.output_offset;
}

/// As Scale, for layers that are wide or arranged for MVE.
inline int8_t scale_wide(const PackedParts& parts, int32_t sum, int32_t channel) {
  const int32_t at = channel * parts.factor_step;
  const Factor factor = {parts.multipliers[at], parts.shifts[at]};
  return Range{-128, 127}.clamp(wrapping_add(requantize(sum, factor), parts.layer->output_offset));
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
