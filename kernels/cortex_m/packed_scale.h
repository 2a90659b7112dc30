#pragma once

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/packed.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

/// Outputs of a channel that are computed at a time without MVE.
constexpr int32_t kLanes = 4;

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

/// The same as Scale, for sums that are doubled, where the addend may be shifted, too: three
/// instructions.
struct FoldedScale {
  /// Largest shift of a factor to the right. Larger ones would leave too few bits for the addend.
  static constexpr int32_t kMaxShift = 21;

  int32_t multiplier;
  int32_t shift;
  int32_t addend;

  /// @param[in] factor Has a shift to the right.
  FoldedScale(Factor factor, int32_t output_offset)
      : multiplier(factor.multiplier),
        shift(-1 - factor.shift),
        addend((1 + 2 * output_offset) * (1 << shift)) {}

  static bool takes(Factor factor) {
    return factor.shift < 0 && factor.shift >= -kMaxShift && factor.multiplier >= 0;
  }

  ET_INLINE int8_t apply(int32_t doubled) const {
    // Halves are rounded away from zero. If a negative sum's product is zero, nothing changes.
    const int32_t high = multiply_add_rounded(doubled, multiplier, addend + (doubled >> 31));
    return static_cast<int8_t>(saturated_half(high >> shift));
  }
};

/// Returns Scale::addend.
ET_INLINE int32_t addend_of(const PackedLayer& layer) {
  return 1 + 2 * layer.output_offset;
}

/// Stores the outputs of four channels of a layer that is not wide. All are computed first:
/// for all that the compiler knows, storing one changes the factors.
ET_INLINE void store_group(
    const int32_t* multipliers,
    const int8_t* shifts,
    int32_t addend,
    int32_t s0,
    int32_t s1,
    int32_t s2,
    int32_t s3,
    int8_t* out) {
  const int8_t first = Scale{multipliers[0], shifts[0], addend}.apply(s0);
  const int8_t second = Scale{multipliers[1], shifts[1], addend}.apply(s1);
  const int8_t third = Scale{multipliers[2], shifts[2], addend}.apply(s2);
  const int8_t fourth = Scale{multipliers[3], shifts[3], addend}.apply(s3);
  out[0] = first;
  out[1] = second;
  out[2] = third;
  out[3] = fourth;
}

/// Narrows outputs, which are saturated to int8, to their layer's range.
__attribute__((noinline)) inline void
clamp_outputs(const PackedLayer& layer, int8_t* out, int32_t count) {
  const Range range = {layer.min, layer.max};
  if (range.min <= -128 && range.max >= 127) {
    return;
  }
#ifdef __ARM_FEATURE_MVE
  const int8x16_t min = vdupq_n_s8(static_cast<int8_t>(range.min));
  const int8x16_t max = vdupq_n_s8(static_cast<int8_t>(range.max));
  for (; count > 0; count -= 16) {
    const mve_pred16_t active = vctp8q(static_cast<uint32_t>(count));
    vstrbq_p_s8(out, vminq_s8(vmaxq_s8(vldrbq_z_s8(out, active), min), max), active);
    out += 16;
  }
#else
#ifdef __ARM_FEATURE_DSP
  constexpr uint32_t kEach = 0x01010101;
  const uint32_t min = static_cast<uint8_t>(range.min) * kEach;
  const uint32_t max = static_cast<uint8_t>(range.max) * kEach;
  for (; count >= 4; count -= 4, out += 4) {
    const uint32_t word = choose_bytes<false>(choose_bytes<true>(load_word(out), min), max);
    std::memcpy(out, &word, sizeof(word));
  }
#endif
  for (int32_t i = 0; i < count; ++i) {
    out[i] = range.clamp(out[i]);
  }
#endif
}

/// The same as Scale, for layers that are wide or arranged for MVE.
inline int8_t scale_wide(const PackedParts& parts, int32_t sum, int32_t channel) {
  const int32_t at = channel * parts.factor_step;
  const Factor factor = {parts.multipliers[at], parts.shifts[at]};
  return Range{-128, 127}.clamp(wrapping_add(requantize(sum, factor), parts.layer->output_offset));
}

/// Returns the output of a channel of any layer of a program with these needs. It is not inline: if
/// it is called more than once it stays a function.
[[maybe_unused]] static int8_t
scaled(const PackedParts& parts, int32_t sum, int32_t channel, uint32_t needs = kNeedsAll) {
  const PackedLayer& layer = *parts.layer;
  if ((needs & kNeedsWide) != 0 && layer.is_wide != 0) {
    return scale_wide(parts, sum, channel);
  }
  const int32_t at = channel * parts.factor_step;
  return Scale{parts.multipliers[at], parts.shifts[at], addend_of(layer)}.apply(sum);
}

} // namespace torch::executor::native::cortex_m
