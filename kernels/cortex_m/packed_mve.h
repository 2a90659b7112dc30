#pragma once

#include <arm_mve.h>

#include "kernels/cortex_m/packed_scale.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Packed layers with the M-profile vector extension. A vector holds four sums, or sixteen
/// products' operands. Intrinsics: Arm MVE Intrinsics Reference (101809).

/// What the sums of four channels become outputs by, for layers that are not wide.
struct VectorScale {
  const int32_t* bias;
  const int32_t* multipliers;
  const int8_t* shifts;
  int32_t factor_step;
  int32_t offset;
  int32x4_t min;
  int32x4_t max;

  VectorScale(const PackedParts& parts, int32_t channel)
      : bias(parts.bias + channel),
        multipliers(parts.multipliers + channel * parts.factor_step),
        shifts(parts.shifts + channel * parts.factor_step),
        factor_step(4 * parts.factor_step),
        offset(parts.layer->output_offset),
        min(vdupq_n_s32(parts.layer->min)),
        max(vdupq_n_s32(parts.layer->max)) {}

  /// Stores the outputs of the next four channels.
  ET_INLINE void store(int32x4_t sums, int8_t* out) {
    const int32x4_t high = away_from_zero(vqrdmulhq_s32(sums, vldrwq_s32(multipliers)));
    vstrbq_s32(out, in_range(vrshlq_s32(high, vldrbq_s32(shifts))));
    bias += 4;
    multipliers += factor_step;
    shifts += factor_step;
  }

  /// As store(), of the last channels.
  ET_INLINE void store_some(int32x4_t sums, int8_t* out, mve_pred16_t active) const {
    const int32x4_t high = away_from_zero(vqrdmulhq_s32(sums, vldrwq_z_s32(multipliers, active)));
    vstrbq_p_s32(out, in_range(vrshlq_s32(high, vldrbq_z_s32(shifts, active))), active);
  }

 private:
  /// Makes a shift to the right that rounds halves up round them away from zero.
  ET_INLINE static int32x4_t away_from_zero(int32x4_t value) {
    return vaddq_s32(value, vshrq_n_s32(value, 31));
  }

  ET_INLINE int32x4_t in_range(int32x4_t value) const {
    return vminq_s32(vmaxq_s32(vaddq_n_s32(value, offset), min), max);
  }
};

ET_INLINE int32x4_t four(int32_t s0, int32_t s1, int32_t s2, int32_t s3) {
  return vsetq_lane_s32(s3, vsetq_lane_s32(s2, vsetq_lane_s32(s1, vdupq_n_s32(s0), 1), 2), 3);
}

/**
 * The sum of the products of `kVectors` vectors with a row of weights, which the next one follows
 * `rest` bytes after the last full vector. A vector's unused lanes are zero; what they are
 * multiplied with doesn't matter. The compiler would compute addresses instead of moving the one
 * that there is.
 */
template <int32_t kVectors, bool kWhole>
ET_INLINE int32_t
multiply_row(const int8x16_t (&x)[kVectors], int32_t rest, const int8_t*& weights) {
  int32_t sum = 0;
  int8x16_t w;
  for (int32_t i = 0; i + 1 < kVectors; ++i) {
    __asm__ volatile("vldrb.8 %q0, [%1], #16" : "=w"(w), "+r"(weights) : : "memory");
    sum = i == 0 ? vmladavq_s8(x[i], w) : vmladavaq_s8(sum, x[i], w);
  }
  if constexpr (kWhole) {
    __asm__ volatile("vldrb.8 %q0, [%1], #16" : "=w"(w), "+r"(weights) : : "memory");
  } else {
    w = vldrbq_s8(weights);
    weights += rest;
  }
  return kVectors == 1 ? vmladavq_s8(x[0], w) : vmladavaq_s8(sum, x[kVectors - 1], w);
}

/// All full groups of four outputs of a vector that `kVectors` registers hold, the last one to its
/// end if `kWhole`.
template <int32_t kVectors, bool kWhole>
void short_rows(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t rest = parts.inner - 16 * (kVectors - 1);
  int8x16_t x[kVectors];
  for (int32_t i = 0; i + 1 < kVectors; ++i) {
    x[i] = vldrbq_s8(in + 16 * i);
  }
  const int8_t* const last = in + 16 * (kVectors - 1);
  x[kVectors - 1] =
      kWhole ? vldrbq_s8(last) : vldrbq_z_s8(last, vctp8q(static_cast<uint32_t>(rest)));
  const int8_t* weights = parts.weights;
  VectorScale scale(parts, 0);
  for (int32_t groups = parts.layer->channels / 4; groups > 0; --groups) {
    const int32_t s0 = multiply_row<kVectors, kWhole>(x, rest, weights);
    const int32_t s1 = multiply_row<kVectors, kWhole>(x, rest, weights);
    const int32_t s2 = multiply_row<kVectors, kWhole>(x, rest, weights);
    const int32_t s3 = multiply_row<kVectors, kWhole>(x, rest, weights);
    scale.store(vaddq_s32(four(s0, s1, s2, s3), vldrwq_s32(scale.bias)), out);
    out += 4;
  }
}

/// The sums of the products of a vector with `rows` (at most four) rows of weights.
ET_INLINE int32x4_t
multiply_rows(const int8_t* x, const int8_t*& weights, int32_t count, int32_t rows) {
  const int8_t* w0 = weights;
  const int8_t* w1 = rows > 1 ? w0 + count : w0;
  const int8_t* w2 = rows > 2 ? w1 + count : w0;
  const int8_t* w3 = rows > 3 ? w2 + count : w0;
  weights += rows * count;
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (int32_t i = count / 16; i > 0; --i) {
    const int8x16_t value = vldrbq_s8(x);
    s0 = vmladavaq_s8(s0, value, vldrbq_s8(w0));
    s1 = vmladavaq_s8(s1, value, vldrbq_s8(w1));
    s2 = vmladavaq_s8(s2, value, vldrbq_s8(w2));
    s3 = vmladavaq_s8(s3, value, vldrbq_s8(w3));
    x += 16;
    w0 += 16;
    w1 += 16;
    w2 += 16;
    w3 += 16;
  }
  if (count % 16 != 0) {
    const int8x16_t value = vldrbq_z_s8(x, vctp8q(static_cast<uint32_t>(count % 16)));
    s0 = vmladavaq_s8(s0, value, vldrbq_s8(w0));
    s1 = vmladavaq_s8(s1, value, vldrbq_s8(w1));
    s2 = vmladavaq_s8(s2, value, vldrbq_s8(w2));
    s3 = vmladavaq_s8(s3, value, vldrbq_s8(w3));
  }
  return four(s0, s1, s2, s3);
}

/// Adds the products of four channels with three elements of a depthwise kernel, whose inputs lie
/// `step` apart; `x` and `weights` move on to the next four channels and the next element. The
/// compiler would keep products on the stack.
ET_INLINE int32x4_t
multiply_three(const int8_t*& x, int32_t step, const int8_t*& weights, int32x4_t sums) {
  int32x4_t a, w;
  const int8_t* second;
  __asm__ volatile(
      "add %[second], %[x], %[step]\n"
      "vldrb.s32 %q[a], [%[x]], #4\n"
      "vldrb.s32 %q[w], [%[weights]], #4\n"
      "vmul.i32 %q[a], %q[a], %q[w]\n"
      "vldrb.s32 %q[w], [%[second]]\n"
      "add %[second], %[second], %[step]\n"
      "vadd.i32 %q[sums], %q[sums], %q[a]\n"
      "vldrb.s32 %q[a], [%[weights]], #4\n"
      "vmul.i32 %q[a], %q[a], %q[w]\n"
      "vldrb.s32 %q[w], [%[second]]\n"
      "vadd.i32 %q[sums], %q[sums], %q[a]\n"
      "vldrb.s32 %q[a], [%[weights]], #4\n"
      "vmul.i32 %q[a], %q[a], %q[w]\n"
      "vadd.i32 %q[sums], %q[sums], %q[a]\n"
      : [sums] "+w"(sums),
        [x] "+l"(x),
        [weights] "+l"(weights),
        [second] "=&l"(second),
        [a] "=&w"(a),
        [w] "=&w"(w)
      : [step] "r"(step)
      : "memory");
  return sums;
}

/// Stores up to four outputs of a layer that is wide.
inline void store_wide(const PackedParts& parts, int32x4_t value, int32_t channel, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  int32_t sums[4];
  vstrwq_s32(sums, value);
  for (int32_t i = 0; i < 4 && channel + i < layer.channels; ++i) {
    out[i] = Range{layer.min, layer.max}.clamp(scale_wide(parts, sums[i], channel + i));
  }
}

/// All outputs of one vector.
inline void rows_to_outputs(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const bool is_wide = parts.layer->is_wide != 0;
  int32_t channel = 0;
  if (!is_wide && inner <= 64) {
    const auto rows = inner == 64 ? short_rows<4, true>
        : inner > 48              ? short_rows<4, false>
        : inner > 32              ? short_rows<3, false>
        : inner > 16              ? short_rows<2, false>
                                  : short_rows<1, false>;
    rows(parts, in, out);
    channel = channels & ~3;
  }
  const int8_t* weights = parts.weights + channel * inner;
  VectorScale scale(parts, channel);
  for (; channel < channels; channel += 4) {
    const int32_t left = channels - channel;
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(left));
    const int32x4_t sums = vaddq_s32(
        multiply_rows(in, weights, inner, left < 4 ? left : 4),
        vldrwq_z_s32(parts.bias + channel, active));
    if (is_wide) {
      store_wide(parts, sums, channel, out + channel);
    } else if (left >= 4) {
      scale.store(sums, out + channel);
    } else {
      scale.store_some(sums, out + channel, active);
    }
  }
}

/// All channels of a depthwise convolution at one position.
inline void
depthwise_pixel(const PackedParts& parts, const int8_t* const* rows, int32_t offset, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t channels = layer.channels;
  const int32_t step = layer.in_channels;
  const int8_t* weights = parts.weights;
  VectorScale scale(parts, 0);
  if (layer.kernel[0] == 3 && layer.kernel[1] == 3 && layer.is_wide == 0) {
    const int8_t* row0 = rows[0] + offset;
    const int8_t* row1 = rows[1] + offset;
    const int8_t* row2 = rows[2] + offset;
    for (int32_t groups = channels / 4; groups > 0; --groups) {
      int32x4_t sums = vldrwq_s32(scale.bias);
      sums = multiply_three(row0, step, weights, sums);
      sums = multiply_three(row1, step, weights, sums);
      sums = multiply_three(row2, step, weights, sums);
      scale.store(sums, out);
      out += 4;
    }
    return;
  }
  for (int32_t c = 0; c < channels; c += 4) {
    int32x4_t sums = vldrwq_s32(parts.bias + c);
    for (int32_t i = 0; i < layer.kernel[0]; ++i) {
      const int8_t* x = rows[i] + offset + c;
      for (int32_t j = layer.kernel[1]; j > 0; --j) {
        sums = vaddq_s32(sums, vmulq_s32(vldrbq_s32(x), vldrbq_s32(weights)));
        x += step;
        weights += 4;
      }
    }
    if (layer.is_wide != 0) {
      store_wide(parts, sums, c, out + c);
    } else {
      scale.store(sums, out + c);
    }
  }
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
