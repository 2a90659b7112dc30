#pragma once

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/requantize.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

/// The sum of `(x[i] + x_offset) * (w[i] + w_offset)` modulo 2^32, for offsets of 9 bits; that of
/// `w` is zero unless `kBothOffsets`.
template <bool kBothOffsets>
int32_t dot(const int8_t* x, int32_t x_offset, const int8_t* w, int32_t w_offset, int32_t count) {
  int32_t sum = 0;
#if defined(__ARM_FEATURE_MVE)
  sum = kBothOffsets ? wrapping_mul(count, x_offset * w_offset) : 0;
  int32_t x_sum = 0;
  int32_t w_sum = 0;
  for (; count > 0; count -= 16) {
    const mve_pred16_t active = vctp8q(static_cast<uint32_t>(count));
    const int8x16_t a = vldrbq_z_s8(x, active);
    const int8x16_t b = vldrbq_z_s8(w, active);
    sum = vmladavaq_s8(sum, a, b);
    x_sum = kBothOffsets ? vaddvaq_s8(x_sum, a) : 0;
    w_sum = vaddvaq_s8(w_sum, b);
    x += 16;
    w += 16;
  }
  return wrapping_add(sum, wrapping_add(x_offset * w_sum, w_offset * x_sum));
#else
#ifdef __ARM_FEATURE_DSP
  const int16x2_t x_offsets = twice(x_offset);
  [[maybe_unused]] const int16x2_t w_offsets = twice(w_offset);
  for (; count >= 4; count -= 4) {
    const uint32_t a = load_word(x);
    const uint32_t b = load_word(w);
    int16x2_t even = even_bytes(b);
    int16x2_t odd = odd_bytes(b);
    if constexpr (kBothOffsets) {
      even = add_pairs(even, w_offsets);
      odd = add_pairs(odd, w_offsets);
    }
    sum = dot2(add_pairs(even_bytes(a), x_offsets), even, sum);
    sum = dot2(add_pairs(odd_bytes(a), x_offsets), odd, sum);
    x += 4;
    w += 4;
  }
#endif
  for (; count > 0; --count) {
    sum = wrapping_add(sum, (*x++ + x_offset) * (*w++ + w_offset));
  }
  return sum;
#endif
}

/// Adds the results of dot() with two rows of weights, which are `step` apart, to two sums.
template <bool kBothOffsets>
ET_INLINE void dot_two(
    const int8_t* x,
    int32_t x_offset,
    const int8_t* w,
    int32_t step,
    int32_t w_offset,
    int32_t count,
    int32_t& s0,
    int32_t& s1) {
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
  const int16x2_t x_offsets = twice(x_offset);
  [[maybe_unused]] const int16x2_t w_offsets = twice(w_offset);
  const auto even_weights = [=](uint32_t word) {
    return kBothOffsets ? add_even_bytes(w_offsets, word) : even_bytes(word);
  };
  const auto odd_weights = [=](uint32_t word) {
    return kBothOffsets ? add_odd_bytes(w_offsets, word) : odd_bytes(word);
  };
  for (; count >= 4; count -= 4) {
    const uint32_t word = load_word(x);
    const int16x2_t even = add_even_bytes(x_offsets, word);
    const int16x2_t odd = add_odd_bytes(x_offsets, word);
    const uint32_t a = load_word(w);
    const uint32_t b = load_word(w + step);
    s0 = dot2(even, even_weights(a), s0);
    s0 = dot2(odd, odd_weights(a), s0);
    s1 = dot2(even, even_weights(b), s1);
    s1 = dot2(odd, odd_weights(b), s1);
    x += 4;
    w += 4;
  }
  for (; count > 0; --count) {
    const int32_t value = *x++ + x_offset;
    s0 = wrapping_add(s0, value * (w[0] + w_offset));
    s1 = wrapping_add(s1, value * (w[step] + w_offset));
    ++w;
  }
#else
  s0 = wrapping_add(s0, dot<kBothOffsets>(x, x_offset, w, w_offset, count));
  s1 = wrapping_add(s1, dot<kBothOffsets>(x, x_offset, w + step, w_offset, count));
#endif
}

} // namespace torch::executor::native::cortex_m
