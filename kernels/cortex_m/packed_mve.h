#pragma once

#include <arm_mve.h>

#include <cstddef>

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch::executor::native::cortex_m {

/// Packed layers with the M-profile vector extension. A vector holds four sums, or sixteen
/// products' operands. Intrinsics: Arm MVE Intrinsics Reference (101809).

/// Sums times their channels' factors: the products' halves rounded up, their shifts' away from
/// zero.
ET_INLINE int32x4_t requantized(int32x4_t sums, int32x4_t multipliers, int32x4_t shifts) {
  const int32x4_t high = vqrdmulhq_s32(sums, multipliers);
  // A shift to the right rounds halves up.
  return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), shifts);
}

/// Turns the sums of four channels into outputs, for layers that are not wide.
struct VectorScale {
  const int32_t* bias;
  const int32_t* multipliers;
  const int8_t* shifts;
  int32_t step;
  int32_t offset;

  /// @param[in] factor_step That of the layer: a constant where each instruction counts.
  VectorScale(const PackedParts& parts, int32_t channel, int32_t factor_step)
      : bias(parts.bias + channel),
        multipliers(parts.multipliers + channel * factor_step),
        shifts(parts.shifts + channel * factor_step),
        step(4 * factor_step),
        offset(parts.layer->output_offset) {}

  /// Stores the outputs of the next four channels.
  ET_INLINE void store(int32x4_t sums, int8_t* out) {
    vstrbq_s32(out, saturated(requantized(sums, vldrwq_s32(multipliers), vldrbq_s32(shifts))));
    move_on();
  }

  /// Does the same as store(), for two pixels, whose outputs are `channels` apart.
  ET_INLINE void store_two(int32x4_t a, int32x4_t b, int8_t* out, int32_t channels) {
    const int32x4_t biases = vldrwq_s32(bias);
    a = vaddq_s32(a, biases);
    b = vaddq_s32(b, biases);
    int32x4_t factors = vldrwq_s32(multipliers);
    // The compiler would compute one after the other, each step of which waits for the last one.
    __asm__(
        "vqrdmulh.s32 %q0, %q0, %q2\n"
        "vqrdmulh.s32 %q1, %q1, %q2\n"
        "vshr.s32 %q2, %q0, #31\n"
        "vadd.i32 %q0, %q0, %q2\n"
        "vshr.s32 %q2, %q1, #31\n"
        "vrshl.s32 %q0, %q0, %q3\n"
        "vadd.i32 %q1, %q1, %q2\n"
        "vqmovnb.s32 %q0, %q0\n"
        "vrshl.s32 %q1, %q1, %q3\n"
        "vqmovnt.s32 %q0, %q1\n"
        "vqadd.s16 %q0, %q0, %4\n"
        "vqmovnb.s16 %q0, %q0\n"
        : "+w"(a), "+w"(b), "+w"(factors)
        : "w"(vldrbq_s32(shifts)), "r"(offset));
    vstrbq_s32(out, a);
    vstrbq_u32(reinterpret_cast<uint8_t*>(out) + channels, upper(a));
    move_on();
  }

  /// Does the same as store(), for three pixels whose outputs are `channels` apart, and whose sums
  /// include biases.
  ET_INLINE void store_three(const int32_t (&sums)[12], int8_t* out, int32_t channels) {
    int32x4_t factors = vldrwq_s32(multipliers);
    int32x4_t a, b, c;
    __asm__(
        "vldrw.32 %q0, [%4]\n"
        "vqrdmulh.s32 %q0, %q0, %q3\n"
        "vldrw.32 %q1, [%4, #16]\n"
        "vqrdmulh.s32 %q1, %q1, %q3\n"
        "vldrw.32 %q2, [%4, #32]\n"
        "vqrdmulh.s32 %q2, %q2, %q3\n"
        "vshr.s32 %q3, %q0, #31\n"
        "vadd.i32 %q0, %q0, %q3\n"
        "vshr.s32 %q3, %q1, #31\n"
        "vrshl.s32 %q0, %q0, %q5\n"
        "vadd.i32 %q1, %q1, %q3\n"
        "vshr.s32 %q3, %q2, #31\n"
        "vrshl.s32 %q1, %q1, %q5\n"
        "vqmovnb.s32 %q0, %q0\n"
        "vadd.i32 %q2, %q2, %q3\n"
        "vrshl.s32 %q2, %q2, %q5\n"
        "vqmovnt.s32 %q0, %q1\n"
        "vqmovnb.s32 %q2, %q2\n"
        "vqadd.s16 %q0, %q0, %6\n"
        "vqadd.s16 %q2, %q2, %6\n"
        "vqmovnb.s16 %q0, %q0\n"
        "vqmovnb.s16 %q2, %q2\n"
        : "=&w"(a), "=&w"(b), "=&w"(c), "+&w"(factors)
        : "r"(sums), "w"(vldrbq_s32(shifts)), "r"(offset), "m"(sums));
    vstrbq_s32(out, a);
    vstrbq_u32(reinterpret_cast<uint8_t*>(out) + channels, upper(a));
    vstrbq_s32(out + 2 * channels, c);
    move_on();
  }

  /// Does the same as store(), for the last channels.
  ET_INLINE void store_some(int32x4_t sums, int8_t* out, mve_pred16_t active) const {
    const int32x4_t factors = vldrwq_z_s32(multipliers, active);
    vstrbq_p_s32(out, saturated(requantized(sums, factors, vldrbq_z_s32(shifts, active))), active);
  }

 private:
  ET_INLINE void move_on() {
    bias += 4;
    multipliers += step;
    shifts += step;
  }

  ET_INLINE static uint32x4_t upper(int32x4_t value) {
    return vshrq_n_u32(vreinterpretq_u32_s32(value), 16);
  }

  /// Saturates in the lowest byte of each lane, which is all that is stored.
  ET_INLINE int32x4_t saturated(int32x4_t value) const {
    int32x4_t result = vaddq_n_s32(value, offset);
    // The compiler would copy the operand to the register of the narrowed lanes.
    __asm__("vqmovnb.s32 %q0, %q0\nvqmovnb.s16 %q0, %q0" : "+w"(result));
    return result;
  }
};

/// Four sums in a vector: two instructions, where the compiler would take four. The first register
/// of each goes to the lower lane, which is named second.
ET_INLINE int32x4_t four(int32_t s0, int32_t s1, int32_t s2, int32_t s3) {
  int32x4_t result;
  __asm__(
      "vmov %q0[2], %q0[0], %1, %3\n"
      "vmov %q0[3], %q0[1], %2, %4\n"
      : "=&w"(result)
      : "r"(s0), "r"(s1), "r"(s2), "r"(s3));
  return result;
}

/**
 * Returns the sum of the products of `kVectors` vectors with a row of weights, whose successor
 * follows `rest` bytes after the last full vector. A vector's unused lanes are zero, so that the
 * weights multiplied with them don't matter. The compiler would compute addresses instead of
 * incrementing the present one.
 */
template <int32_t kVectors, bool kWhole>
ET_INLINE int32_t multiply_row(
    const int8x16_t (&x)[static_cast<size_t>(kVectors)],
    int32_t rest,
    const int8_t*& weights) {
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
template <int32_t kFactorStep, int32_t kVectors, bool kWhole>
void short_rows(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t rest = parts.inner - 16 * (kVectors - 1);
  int8x16_t x[static_cast<size_t>(kVectors)];
  for (int32_t i = 0; i + 1 < kVectors; ++i) {
    x[i] = vldrbq_s8(in + 16 * i);
  }
  const int8_t* const last = in + 16 * (kVectors - 1);
  x[kVectors - 1] =
      kWhole ? vldrbq_s8(last) : vldrbq_z_s8(last, vctp8q(static_cast<uint32_t>(rest)));
  const int8_t* weights = parts.weights;
  VectorScale scale(parts, 0, kFactorStep);
  for (int32_t groups = parts.layer->channels / 4; groups > 0; --groups) {
    const int32_t s0 = multiply_row<kVectors, kWhole>(x, rest, weights);
    const int32_t s1 = multiply_row<kVectors, kWhole>(x, rest, weights);
    const int32_t s2 = multiply_row<kVectors, kWhole>(x, rest, weights);
    const int32_t s3 = multiply_row<kVectors, kWhole>(x, rest, weights);
    scale.store(vaddq_s32(four(s0, s1, s2, s3), vldrwq_s32(scale.bias)), out);
    out += 4;
  }
}

/// Adds the products of `sixteens` vectors with four rows of weights; all move on. Ten instructions
/// for 64 products; the compiler would compute addresses, too.
ET_INLINE void multiply_sixteens(
    int32_t sixteens,
    const int8_t*& x,
    const int8_t*& w0,
    const int8_t*& w1,
    const int8_t*& w2,
    const int8_t*& w3,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
#define ROW_PRODUCTS(sum, row) \
  "vldrb.8 q1, [" row          \
  "], #16\n"                   \
  "vmladava.s8 " sum ", q0, q1\n"
  __asm__ volatile("wls lr, %[sixteens], 2f\n"
                   "1:\n"
                   "vldrb.8 q0, [%[x]], #16\n" ROW_PRODUCTS("%[s0]", "%[w0]") ROW_PRODUCTS("%[s1]", "%[w1]")
                       ROW_PRODUCTS("%[s2]", "%[w2]") ROW_PRODUCTS("%[s3]", "%[w3]")
                   "le lr, 1b\n"
                   "2:\n"
                   : [s0] "+Te"(s0),
                     [s1] "+Te"(s1),
                     [s2] "+Te"(s2),
                     [s3] "+Te"(s3),
                     [x] "+r"(x),
                     [w0] "+r"(w0),
                     [w1] "+r"(w1),
                     [w2] "+r"(w2),
                     [w3] "+r"(w3)
                   : [sixteens] "r"(sixteens)
                   : "memory", "lr", "q0", "q1");
#undef ROW_PRODUCTS
}

/// Does the same as multiply_sixteens(), with one vector whose unused lanes are zero, so that the
/// weights multiplied with them don't matter.
ET_INLINE void multiply_rest(
    int8x16_t value,
    const int8_t* w0,
    const int8_t* w1,
    const int8_t* w2,
    const int8_t* w3,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  s0 = vmladavaq_s8(s0, value, vldrbq_s8(w0));
  s1 = vmladavaq_s8(s1, value, vldrbq_s8(w1));
  s2 = vmladavaq_s8(s2, value, vldrbq_s8(w2));
  s3 = vmladavaq_s8(s3, value, vldrbq_s8(w3));
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
  multiply_sixteens(count / 16, x, w0, w1, w2, w3, s0, s1, s2, s3);
  if (count % 16 != 0) {
    const mve_pred16_t active = vctp8q(static_cast<uint32_t>(count % 16));
    multiply_rest(vldrbq_z_s8(x, active), w0, w1, w2, w3, s0, s1, s2, s3);
  }
  return four(s0, s1, s2, s3);
}

/// Full groups of four outputs of one vector, of a layer that is not wide. A function of its own:
/// within a larger one the compiler would keep most of it on the stack.
template <int32_t kFactorStep>
__attribute__((noinline)) void rows_by_fours(
    const PackedParts& parts,
    const int8_t* in,
    int32_t channel,
    int32_t end,
    int8_t* out) {
  const int32_t count = parts.inner;
  const int32_t sixteens = count / 16;
  const int32_t rest = count % 16;
  const int8_t* weights = parts.weights + channel * count;
  VectorScale scale(parts, channel, kFactorStep);
  out += channel;
  for (int8_t* const last = out + (end - channel); out != last; out += 4) {
    const int8_t* x = in;
    const int8_t* w0 = weights;
    const int8_t* w1 = w0 + count;
    const int8_t* w2 = w1 + count;
    const int8_t* w3 = w2 + count;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    multiply_sixteens(sixteens, x, w0, w1, w2, w3, s0, s1, s2, s3);
    if (rest != 0) {
      const mve_pred16_t active = vctp8q(static_cast<uint32_t>(rest));
      multiply_rest(vldrbq_z_s8(x, active), w0, w1, w2, w3, s0, s1, s2, s3);
    }
    weights = w3 + rest;
    scale.store(vaddq_s32(four(s0, s1, s2, s3), vldrwq_s32(scale.bias)), out);
  }
}

/// Stores up to four outputs of a layer that is wide.
inline void store_wide(const PackedParts& parts, int32x4_t value, int32_t channel, int8_t* out) {
  int32_t sums[4];
  vstrwq_s32(sums, value);
  for (int32_t i = 0; i < 4 && channel + i < parts.layer->channels; ++i) {
    out[i] = scale_wide(parts, sums[i], channel + i);
  }
}

/// Computes the outputs of one vector from `channel` on. It is not inlined, so that the caller
/// needs less stack.
inline __attribute__((noinline)) void
last_rows(const PackedParts& parts, const int8_t* in, int32_t channel, int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const bool is_wide = parts.layer->is_wide != 0;
  const int8_t* weights = parts.weights + channel * inner;
  const VectorScale scale(parts, channel, parts.factor_step);
  for (; channel < channels; channel += 4) {
    const int32_t left = channels - channel;
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(left));
    const int32x4_t sums = vaddq_s32(
        multiply_rows(in, weights, inner, left < 4 ? left : 4),
        vldrwq_z_s32(parts.bias + channel, active));
    if (is_wide) {
      store_wide(parts, sums, channel, out + channel);
    } else {
      scale.store_some(sums, out + channel, active);
    }
  }
}

/// Computes all outputs of one vector.
inline void rows_to_outputs(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const bool is_wide = parts.layer->is_wide != 0;
  const bool is_linear = parts.factor_step == 0;
  int32_t channel = 0;
  // Linear layers have few rows; code for each length would take more flash than it is worth.
  if (!is_wide && inner <= (is_linear ? 16 : 64)) {
    const auto rows = is_linear ? short_rows<0, 1, false>
        : inner == 64           ? short_rows<1, 4, true>
        : inner > 48            ? short_rows<1, 4, false>
        : inner > 32            ? short_rows<1, 3, false>
        : inner > 16            ? short_rows<1, 2, false>
                                : short_rows<1, 1, false>;
    rows(parts, in, out);
    channel = channels & ~3;
  }
  if (const int32_t end = channels & ~3; !is_wide && channel < end) {
    if (is_linear) {
      rows_by_fours<0>(parts, in, channel, end, out);
    } else {
      rows_by_fours<1>(parts, in, channel, end, out);
    }
    channel = end;
  }
  if (channel < channels) {
    last_rows(parts, in, channel, out);
  }
}

/// Does the same as multiply_row(), with two pixels' vectors.
template <int32_t kVectors>
ET_INLINE void multiply_row_twice(
    const int8x16_t (&x)[static_cast<size_t>(kVectors)],
    const int8x16_t (&y)[static_cast<size_t>(kVectors)],
    int32_t rest,
    const int8_t*& weights,
    int32_t& x_sum,
    int32_t& y_sum) {
  int8x16_t w;
#pragma GCC unroll 4
  for (int32_t i = 0; i < kVectors; ++i) {
    if (i + 1 < kVectors) {
      __asm__ volatile("vldrb.8 %q0, [%1], #16" : "=w"(w), "+r"(weights) : : "memory");
    } else {
      w = vldrbq_s8(weights);
      weights += rest;
    }
    x_sum = i == 0 ? vmladavq_s8(x[i], w) : vmladavaq_s8(x_sum, x[i], w);
    y_sum = i == 0 ? vmladavq_s8(y[i], w) : vmladavaq_s8(y_sum, y[i], w);
  }
}

/// Computes the outputs of pairs of pixels, each of which fits in `kVectors` registers. Their
/// inputs are read before the outputs are written. Channels are a multiple of four.
template <int32_t kVectors>
void short_pairs(const PackedParts& parts, const int8_t* in, int32_t pairs, int8_t* out) {
  const int32_t inner = parts.inner;
  const int32_t channels = parts.layer->channels;
  const int32_t rest = inner - 16 * (kVectors - 1);
  const mve_pred16_t active = vctp8q(static_cast<uint32_t>(rest));
  for (; pairs > 0; --pairs) {
    int8x16_t x[static_cast<size_t>(kVectors)], y[static_cast<size_t>(kVectors)];
#pragma GCC unroll 4
    for (int32_t i = 0; i < kVectors; ++i) {
      const bool is_whole = i + 1 < kVectors;
      x[i] = is_whole ? vldrbq_s8(in + 16 * i) : vldrbq_z_s8(in + 16 * i, active);
      y[i] = is_whole ? vldrbq_s8(in + inner + 16 * i) : vldrbq_z_s8(in + inner + 16 * i, active);
    }
    in += 2 * inner;
    const int8_t* weights = parts.weights;
    VectorScale scale(parts, 0, 1);
    for (int32_t groups = channels / 4; groups > 0; --groups) {
      int32_t x0, x1, x2, x3, y0, y1, y2, y3;
      multiply_row_twice<kVectors>(x, y, rest, weights, x0, y0);
      multiply_row_twice<kVectors>(x, y, rest, weights, x1, y1);
      multiply_row_twice<kVectors>(x, y, rest, weights, x2, y2);
      multiply_row_twice<kVectors>(x, y, rest, weights, x3, y3);
      scale.store_two(four(x0, x1, x2, x3), four(y0, y1, y2, y3), out, channels);
      out += 4;
    }
    out += channels;
  }
}

/// Returns whether short_pixels() takes a pointwise layer.
inline bool are_short_pixels(const PackedParts& parts) {
  return parts.layer->is_wide == 0 && parts.inner <= 32 && parts.layer->channels % 4 == 0;
}

/// Computes all outputs of a pointwise layer with few inputs, two pixels at a time.
inline void short_pixels(const PackedParts& parts, const int8_t* in, int32_t pixels, int8_t* out) {
  const int32_t inner = parts.inner;
  const auto pairs = inner > 16 ? short_pairs<2> : short_pairs<1>;
  pairs(parts, in, pixels / 2, out);
  if (pixels % 2 != 0) {
    rows_to_outputs(parts, in + (pixels - 1) * inner, out + (pixels - 1) * parts.layer->channels);
  }
}

/// The windows of a row of outputs that are inside an image, in the order in which one of them is
/// read: `count` rows of `bytes` bytes, a multiple of sixteen.
struct WindowRows {
  int32_t count;
  int32_t bytes;
  /// The distance from the end of a row to the next one.
  int32_t jump;
  /// The distance from a window to the next one.
  int32_t step;
};

/// Windows that are multiplied at a time.
constexpr int32_t kWindows = 3;

/// The arguments of multiply_windows(), in the order in which one instruction loads the first five.
struct alignas(16) WindowProducts {
  const int8_t* x[kWindows];
  /// The next channel's weights.
  const int8_t* weights;
  int32_t rows;
  /// The next channel's bias.
  const int32_t* bias;
  /// The same as in WindowRows.
  int32_t loops;
  int32_t jump;
  /// Bytes of a channel's weights.
  int32_t inner;
  /// The address for the next two channels' sums of the first window: sums[0] or sums[2].
  int32_t* next;
  int32_t unused[2];
  /// Four channels' sums of a window, then the next window's.
  int32_t sums[4 * kWindows];
};
static_assert(sizeof(void*) != 4 || offsetof(WindowProducts, sums) == 48);

/**
 * The sums of four channels for three windows: biases and products. Two channels at a time; weights
 * and biases move on. `kUnrolled` vectors at a time, of which a row of a window has a multiple:
 * eleven instructions each for 96 products, and one more per loop; on Cortex-M55 twelve cycles, as
 * loads and multiplications take turns. Of the first channel the weights are loaded a vector ahead,
 * up to the second channel's. All registers but the one with the address are taken: sums' are even
 * ones.
 */
template <int32_t kUnrolled>
ET_INLINE void multiply_windows(WindowProducts& products) {
  register WindowProducts* from __asm__("r7") = &products;
  __asm__ volatile(
      "1:\n"
      "ldm %[from], {r1, r3, r5, r9, r12}\n"
      "ldr lr, [%[from], #20]\n"
      "ldrd r0, r6, [lr], #8\n"
      "str lr, [%[from], #20]\n"
      "ldr lr, [%[from], #32]\n"
      "add r11, r9, lr\n"
      "mov r2, r0\n"
      "mov r4, r0\n"
      "mov r8, r6\n"
      "mov r10, r6\n"
      "vldrb.8 q1, [r9], #16\n"
      "2:\n"
      "ldr lr, [%[from], #24]\n"
      "dls lr, lr\n"
      "3:\n"
      ".rept %c[unrolled]\n"
      "vldrb.8 q0, [r1], #16\n"
      "vmladava.s8 r0, q0, q1\n"
      "vldrb.8 q2, [r11], #16\n"
      "vmladava.s8 r6, q0, q2\n"
      "vldrb.8 q0, [r3], #16\n"
      "vmladava.s8 r2, q0, q1\n"
      "vldrb.8 q3, [r5], #16\n"
      "vmladava.s8 r8, q0, q2\n"
      "vmladava.s8 r4, q3, q1\n"
      "vldrb.8 q1, [r9], #16\n"
      "vmladava.s8 r10, q3, q2\n"
      ".endr\n"
      "le lr, 3b\n"
      "ldr lr, [%[from], #28]\n"
      "add r1, lr\n"
      "add r3, lr\n"
      "add r5, lr\n"
      "subs r12, #1\n"
      "bne 2b\n"
      // The second row ends where the next channel's begins.
      "str r11, [%[from], #12]\n"
      "ldr r12, [%[from], #36]\n"
      "strd r0, r6, [r12]\n"
      "strd r2, r8, [r12, #16]\n"
      "strd r4, r10, [r12, #32]\n"
      "eor r12, #8\n"
      "str r12, [%[from], #36]\n"
      "lsls lr, r12, #28\n"
      "bmi 1b\n"
      :
      : [from] "r"(from), [unrolled] "i"(kUnrolled)
      : "memory",
        "cc",
        "r0",
        "r1",
        "r2",
        "r3",
        "r4",
        "r5",
        "r6",
        "r8",
        "r9",
        "r10",
        "r11",
        "r12",
        "lr",
        "q0",
        "q1",
        "q2",
        "q3");
}

/// Computes all outputs of three windows, for a layer that is not wide and whose channels are a
/// multiple of four.
template <int32_t kUnrolled>
__attribute__((noinline)) void windows_to_outputs(
    const PackedParts& parts,
    const WindowRows& rows,
    const int8_t* in,
    int8_t* out) {
  const int32_t channels = parts.layer->channels;
#ifdef __clang__
  // A variable that the stack has to be aligned for would make r7 a frame pointer.
  int64_t memory[(sizeof(WindowProducts) + 8) / sizeof(int64_t)];
  const uintptr_t address = (reinterpret_cast<uintptr_t>(memory) + 8) & ~uintptr_t{15};
  WindowProducts& products = *reinterpret_cast<WindowProducts*>(address);
#else
  WindowProducts products;
#endif
  products.x[0] = in;
  products.x[1] = in + rows.step;
  products.x[2] = in + 2 * rows.step;
  products.weights = parts.weights;
  products.rows = rows.count;
  products.bias = parts.bias;
  products.loops = static_cast<int32_t>(static_cast<uint32_t>(rows.bytes) / (16 * kUnrolled));
  products.jump = rows.jump;
  products.inner = parts.inner;
  products.next = products.sums;
  VectorScale scale(parts, 0, 1);
  for (int8_t* const end = out + channels; out != end; out += 4) {
    multiply_windows<kUnrolled>(products);
    scale.store_three(products.sums, out, channels);
  }
}

/// The sums of sixteen channels as widening multiplications give them: vector `i` has channels
/// `i`, `i` + 4, `i` + 8 and `i` + 12. The tables of depthwise layers have this order.
struct SixteenSums {
  int32x4_t s0, s1, s2, s3;

  explicit SixteenSums(const int32_t* bias)
      : s0(vldrwq_s32(bias)),
        s1(vldrwq_s32(bias + 4)),
        s2(vldrwq_s32(bias + 8)),
        s3(vldrwq_s32(bias + 12)) {}

  /// Adds the products of sixteen channels with an element of a depthwise kernel.
  ET_INLINE void multiply(int8x16_t x, int8x16_t weights) {
    const int16x8_t even = vmullbq_int_s8(x, weights);
    const int16x8_t odd = vmulltq_int_s8(x, weights);
    s0 = vaddq_s32(s0, vmovlbq_s16(even));
    s2 = vaddq_s32(s2, vmovltq_s16(even));
    s1 = vaddq_s32(s1, vmovlbq_s16(odd));
    s3 = vaddq_s32(s3, vmovltq_s16(odd));
  }

  /// Stores the outputs of `active` channels of a layer that is not wide.
  ET_INLINE void store(
      const int32_t* multipliers,
      const int8_t* shifts,
      int32_t offset,
      int8_t* out,
      mve_pred16_t active) const {
    const int32x4_t v0 = requantized(s0, vldrwq_s32(multipliers), four_shifts<0>(shifts));
    const int32x4_t v1 = requantized(s1, vldrwq_s32(multipliers + 4), four_shifts<4>(shifts));
    const int32x4_t v2 = requantized(s2, vldrwq_s32(multipliers + 8), four_shifts<8>(shifts));
    const int32x4_t v3 = requantized(s3, vldrwq_s32(multipliers + 12), four_shifts<12>(shifts));
    int16x8_t even = narrowed(v0, v2, offset);
    const int16x8_t odd = narrowed(v1, v3, offset);
    __asm__("vqmovnb.s16 %q0, %q0\nvqmovnt.s16 %q0, %q1" : "+w"(even) : "w"(odd));
    vstrbq_p_s8(out, vreinterpretq_s8_s16(even), active);
  }

  /// Stores `count` outputs of a layer that is wide.
  void store_wide(const PackedParts& parts, int32_t channel, int32_t count, int8_t* out) const {
    int32_t sums[16];
    vstrwq_s32(sums, s0);
    vstrwq_s32(sums + 4, s1);
    vstrwq_s32(sums + 8, s2);
    vstrwq_s32(sums + 12, s3);
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at = depthwise_place(*parts.layer, i);
      out[i] = scale_wide(parts, sums[at], channel + at);
    }
  }

 private:
  /// Four shifts. The compiler would compute their address.
  template <int32_t kAt>
  ET_INLINE static int32x4_t four_shifts(const int8_t* shifts) {
    int32x4_t result;
    __asm__("vldrb.s32 %q0, [%1, %2]" : "=w"(result) : "l"(shifts), "i"(kAt), "m"(shifts[kAt]));
    return result;
  }

  /// Saturates pairs of outputs to 16 bits. The compiler would copy the operand.
  ET_INLINE static int16x8_t narrowed(int32x4_t low, int32x4_t high, int32_t offset) {
    __asm__("vqmovnb.s32 %q0, %q0\nvqmovnt.s32 %q0, %q1" : "+w"(low) : "w"(high));
    return vqaddq_n_s16(vreinterpretq_s16_s32(low), static_cast<int16_t>(offset));
  }
};

/**
 * The outputs of up to sixteen channels of a 3x3 depthwise kernel, of a layer that is not wide,
 * whose inputs in a row are `step` apart; advances rows and weights. The products of two elements
 * are added in 16 bits; a layer with two weights of -128 is wide. 126 instructions. On Cortex-M55
 * neighbours that need the same unit take a cycle more: sums alternate with the next elements'
 * loads and multiplications, for which the compiler would run out of registers.
 */
// The first two elements. Their sums of even and odd bytes go to `even` and `odd`, and the lower
// half of `even` to `low`.
#define FIRST_TWO(load, address, next, step, even, odd, low, b)                            \
  load " %q[" #low "], " address                                                           \
       "\n"                                                                                \
       "vldrb.8 %q[" #b                                                                    \
       "], [%[weights]], #16\n"                                                            \
       "vmullb.s8 %q[" #even "], %q[" #low "], %q[" #b                                     \
       "]\n"                                                                               \
       "vmullt.s8 %q[" #odd "], %q[" #low "], %q[" #b                                      \
       "]\n"                                                                               \
       "vldrb.8 %q[" #b "], [%[weights]], #16\n" load " %q[" #low "], " next               \
       "\n"                                                                                \
       "vmullb.s8 %q[" #low "], %q[" #low "], %q[" #b                                      \
       "]\n"                                                                               \
       "vadd.i16 %q[" #even "], %q[" #even "], %q[" #low "]\n" load " %q[" #low "], " next \
       "\n" step "vmullt.s8 %q[" #b "], %q[" #low "], %q[" #b                              \
       "]\n"                                                                               \
       "vmovlb.s16 %q[" #low "], %q[" #even                                                \
       "]\n"                                                                               \
       "vadd.i16 %q[" #odd "], %q[" #odd "], %q[" #b "]\n"
// Adds what FIRST_TWO() gives, but the upper half of `odd`, and begins with the next element: its
// products are in `even` and `low`.
#define NEXT_ONE(load, address, step, even, odd, low, b)                                \
  "vldrb.8 %q[" #b                                                                      \
  "], [%[weights]], #16\n"                                                              \
  "vadd.i32 %q[s0], %q[s0], %q[" #low "]\n" load " %q[" #low "], " address              \
  "\n"                                                                                  \
  "vmovlt.s16 %q[" #even "], %q[" #even "]\n" step "vadd.i32 %q[s2], %q[s2], %q[" #even \
  "]\n"                                                                                 \
  "vmullb.s8 %q[" #even "], %q[" #low "], %q[" #b                                       \
  "]\n"                                                                                 \
  "vmullt.s8 %q[" #low "], %q[" #low "], %q[" #b                                        \
  "]\n"                                                                                 \
  "vmovlb.s16 %q[" #b "], %q[" #odd                                                     \
  "]\n"                                                                                 \
  "vadd.i32 %q[s1], %q[s1], %q[" #b "]\n"
// The same for two elements. The results are in `even`, `low` and `b`.
#define NEXT_TWO(load, address, step, next, last, even, odd, low, b)                  \
  NEXT_ONE(load, address, step, even, odd, low, b)                                    \
  "vldrb.8 %q[" #b                                                                    \
  "], [%[weights]], #16\n"                                                            \
  "vmovlt.s16 %q[" #odd "], %q[" #odd                                                 \
  "]\n"                                                                               \
  "vadd.i32 %q[s3], %q[s3], %q[" #odd "]\n" load " %q[" #odd "], " next               \
  "\n"                                                                                \
  "vmullb.s8 %q[" #odd "], %q[" #odd "], %q[" #b                                      \
  "]\n"                                                                               \
  "vadd.i16 %q[" #even "], %q[" #even "], %q[" #odd "]\n" load " %q[" #odd "], " last \
  "\n"                                                                                \
  "vmullt.s8 %q[" #odd "], %q[" #odd "], %q[" #b                                      \
  "]\n"                                                                               \
  "vmovlb.s16 %q[" #b "], %q[" #even                                                  \
  "]\n"                                                                               \
  "vadd.i16 %q[" #low "], %q[" #low "], %q[" #odd "]\n"
// requantized() of sums, but its last addition and shift.
#define LAST_SUM(sum, multiplier, move, from, to)                                        \
  "vldrw.32 %q[b], [%[multipliers], #" multiplier "]\n" move ".s16 %q[" to "], %q[" from \
  "]\n"                                                                                  \
  "vadd.i32 %q[" sum "], %q[" sum "], %q[" to                                            \
  "]\n"                                                                                  \
  "vqrdmulh.s32 %q[" sum "], %q[" sum "], %q[b]\n"
#define NINE_PRODUCTS(load) \
  "add %[x], %[row0], %[step]\n" \
  FIRST_TWO(load, "[%[row0]], #16", "[%[x]]", "add %[x], %[x], %[step]\n", even, odd, low, b) \
  NEXT_TWO(load, "[%[x]]", "add %[x], %[row1], %[step]\n", "[%[row1]]", "[%[row1]], #16", even, odd, low, b) \
  NEXT_TWO(load, "[%[x]]", "add %[x], %[x], %[step]\n", "[%[x]]", "[%[x]]", even, low, b, odd) \
  "add %[x], %[row2], %[step]\n" \
  NEXT_TWO(load, "[%[row2]], #16", "", "[%[x]]", "[%[x]]", even, b, odd, low) \
  "add %[x], %[x], %[step]\n" \
  NEXT_ONE(load, "[%[x]]", "", even, odd, low, b) \
  "vmovlt.s16 %q[odd], %q[odd]\n" \
  "vadd.i32 %q[s3], %q[s3], %q[odd]\n" \
  LAST_SUM("s0", "0", "vmovlb", "even", "odd") LAST_SUM("s2", "32", "vmovlt", "even", "even") \
  LAST_SUM("s1", "16", "vmovlb", "low", "odd") LAST_SUM("s3", "48", "vmovlt", "low", "low") \
  "vshr.s32 %q[even], %q[s0], #31\n" \
  "vldrb.s32 %q[b], [%[shifts]]\n" \
  "vadd.i32 %q[s0], %q[s0], %q[even]\n" \
  "vldrb.s32 %q[low], [%[shifts], #8]\n" \
  "vshr.s32 %q[odd], %q[s2], #31\n" \
  "vrshl.s32 %q[s0], %q[s0], %q[b]\n" \
  "vadd.i32 %q[s2], %q[s2], %q[odd]\n" \
  "vldrb.s32 %q[b], [%[shifts], #4]\n" \
  "vshr.s32 %q[even], %q[s1], #31\n" \
  "vrshl.s32 %q[s2], %q[s2], %q[low]\n" \
  "vldrb.s32 %q[low], [%[shifts], #12]\n" \
  "vadd.i32 %q[s1], %q[s1], %q[even]\n" \
  "vqmovnb.s32 %q[s0], %q[s0]\n" \
  "vshr.s32 %q[odd], %q[s3], #31\n" \
  "vrshl.s32 %q[s1], %q[s1], %q[b]\n" \
  "vqmovnt.s32 %q[s0], %q[s2]\n" \
  "vadd.i32 %q[s3], %q[s3], %q[odd]\n" \
  "vqmovnb.s32 %q[s1], %q[s1]\n" \
  "vrshl.s32 %q[s3], %q[s3], %q[low]\n" \
  "vqadd.s16 %q[s0], %q[s0], %[offset]\n" \
  "vqmovnt.s32 %q[s1], %q[s3]\n" \
  "vqmovnb.s16 %q[s0], %q[s0]\n" \
  "vqadd.s16 %q[s1], %q[s1], %[offset]\n" \
  "vqmovnt.s16 %q[s0], %q[s1]\n"
template <bool kWhole>
ET_INLINE int8x16_t outputs_3x3(
    SixteenSums sums,
    const int8_t*& row0,
    const int8_t*& row1,
    const int8_t*& row2,
    int32_t step,
    const int8_t*& weights,
    const int32_t* multipliers,
    const int8_t* shifts,
    int32_t offset,
    [[maybe_unused]] int32_t count) {
  int8x16_t even, odd, low, b;
  const int8_t* x;
#define NINE_ASM(text, ...)                          \
  __asm__ volatile(text                              \
                   : [s0] "+w"(sums.s0),             \
                     [s1] "+w"(sums.s1),             \
                     [s2] "+w"(sums.s2),             \
                     [s3] "+w"(sums.s3),             \
                     [row0] "+r"(row0),              \
                     [row1] "+r"(row1),              \
                     [row2] "+r"(row2),              \
                     [weights] "+r"(weights),        \
                     [x] "=&r"(x),                   \
                     [even] "=&w"(even),             \
                     [odd] "=&w"(odd),               \
                     [low] "=&w"(low),               \
                     [b] "=&w"(b)                    \
                   : [step] "r"(step),               \
                     [multipliers] "r"(multipliers), \
                     [shifts] "l"(shifts),           \
                     [offset] "r"(offset)__VA_ARGS__)
  if constexpr (kWhole) {
    NINE_ASM(NINE_PRODUCTS("vldrb.8"), : "memory");
  } else {
    NINE_ASM(
        SAVE_P0 "vctp.8 %[count]\n" NINE_PRODUCTS("vpst\nvldrbt.8") RESTORE_P0,
        ,
        [count] "r"(count) : "memory" WITH_GCC(, "p0"));
  }
#undef NINE_ASM
  return vreinterpretq_s8_s32(sums.s0);
}
#undef NINE_PRODUCTS
#undef LAST_SUM
#undef NEXT_TWO
#undef NEXT_ONE
#undef FIRST_TWO

/// Computes all channels of a depthwise convolution of three by three at one position.
inline __attribute__((noinline)) void depthwise_pixel_3x3(
    const PackedParts& parts,
    const int8_t* row0,
    const int8_t* row1,
    const int8_t* row2,
    int8_t* out) {
  const int32_t offset = parts.layer->output_offset;
  const int32_t step = parts.layer->channels;
  const int32_t* bias = parts.bias;
  const int32_t* multipliers = parts.multipliers;
  const int8_t* shifts = parts.shifts;
  const int8_t* weights = parts.weights;
  for (int32_t groups = step / 16; groups > 0; --groups) {
    vstrbq_s8(
        out,
        outputs_3x3<true>(
            SixteenSums(bias), row0, row1, row2, step, weights, multipliers, shifts, offset, 16));
    bias += 16;
    multipliers += 16;
    shifts += 16;
    out += 16;
  }
  if (step % 16 != 0) {
    const int32_t rest = step % 16;
    const int8x16_t outputs = outputs_3x3<false>(
        SixteenSums(bias), row0, row1, row2, step, weights, multipliers, shifts, offset, rest);
    vstrbq_p_s8(out, outputs, vctp8q(static_cast<uint32_t>(rest)));
  }
}

/// Does the same as depthwise_pixel(), for any kernel.
inline __attribute__((noinline)) void depthwise_pixel_any(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t offset,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t channels = layer.channels;
  const int8_t* weights = parts.weights;
  for (int32_t c = 0; c < channels; c += 16) {
    const int32_t count = channels - c < 16 ? channels - c : 16;
    const mve_pred16_t active = vctp8q(static_cast<uint32_t>(count));
    SixteenSums sums(parts.bias + c);
    for (int32_t i = 0; i < layer.kernel[0]; ++i) {
      const int8_t* x = rows[i] + offset + c;
      for (int32_t j = layer.kernel[1]; j > 0; --j) {
        sums.multiply(vldrbq_z_s8(x, active), vldrbq_s8(weights));
        x += channels;
        weights += 16;
      }
    }
    if (layer.is_wide != 0) {
      sums.store_wide(parts, c, count, out + c);
    } else {
      sums.store(parts.multipliers + c, parts.shifts + c, layer.output_offset, out + c, active);
    }
  }
}

/// Computes all channels of a depthwise convolution at one position.
ET_INLINE void
depthwise_pixel(const PackedParts& parts, const int8_t* const* rows, int32_t offset, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  if (layer.kernel[0] == 3 && layer.kernel[1] == 3 && layer.is_wide == 0) {
    depthwise_pixel_3x3(parts, rows[0] + offset, rows[1] + offset, rows[2] + offset, out);
  } else {
    depthwise_pixel_any(parts, rows, offset, out);
  }
}

} // namespace torch::executor::native::cortex_m
