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

/// As Scale, of sums that are doubled, where the addend may be shifted, too: three instructions.
struct FoldedScale {
  /// Largest shift of a factor to the right. Larger ones would leave too few bits for the addend.
  static constexpr int32_t kMaxShift = 21;

  int32_t multiplier;
  int32_t shift;
  int32_t addend;

  /// @param[in] factor Of a shift to the right.
  FoldedScale(Factor factor, int32_t output_offset)
      : multiplier(factor.multiplier),
        shift(-1 - factor.shift),
        addend((1 + 2 * output_offset) * (1 << shift)) {}

  static bool takes(Factor factor) {
    return factor.shift < 0 && factor.shift >= -kMaxShift && factor.multiplier >= 0;
  }

  ET_INLINE int8_t apply(int32_t doubled) const {
    // Halves are rounded away from zero. Where a negative sum's product is zero, nothing changes.
    const int32_t high = multiply_add_rounded(doubled, multiplier, addend + (doubled >> 31));
    return static_cast<int8_t>(saturated_half(high >> shift));
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
