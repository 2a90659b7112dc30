#include "kernels/cortex_m/linear.h"

#include <cstring>

#include "kernels/cortex_m/dot.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch::executor::native::cortex_m {

namespace {

#if defined(__ARM_FEATURE_MVE)

/// The sums of the products of a row with up to four columns, or, if `kAlone`, of the columns.
template <bool kAlone>
ET_INLINE int32x4_t
multiply_columns(const int8_t* x, const int8_t* right, int32_t columns, int32_t inner) {
  const int8_t* w0 = right;
  const int8_t* w1 = columns > 1 ? w0 + inner : w0;
  const int8_t* w2 = columns > 2 ? w1 + inner : w0;
  const int8_t* w3 = columns > 3 ? w2 + inner : w0;
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int8x16_t value = vdupq_n_s8(1);
  for (int32_t left = inner; left > 0; left -= 16) {
    const mve_pred16_t active = vctp8q(static_cast<uint32_t>(left));
    if constexpr (!kAlone) {
      value = vldrbq_z_s8(x, active);
      x += 16;
    }
    s0 = vmladavaq_s8(s0, value, vldrbq_z_s8(w0, active));
    s1 = vmladavaq_s8(s1, value, vldrbq_z_s8(w1, active));
    s2 = vmladavaq_s8(s2, value, vldrbq_z_s8(w2, active));
    s3 = vmladavaq_s8(s3, value, vldrbq_z_s8(w3, active));
    w0 += 16;
    w1 += 16;
    w2 += 16;
    w3 += 16;
  }
  const int32_t sums[] = {s0, s1, s2, s3};
  return vldrwq_s32(sums);
}

/// Does the same as matmul() with a factor of a shift to the right.
void multiply_vectors(
    const MatmulParameters& p,
    const int8_t* left,
    int32_t rows,
    const int8_t* right,
    int32_t columns,
    const int32_t* start,
    int32_t inner,
    int8_t* out) {
  const int32x4_t min = vdupq_n_s32(p.range.min);
  const int32x4_t max = vdupq_n_s32(p.range.max);
  for (int32_t j = 0; j < columns; j += 4) {
    const int32_t some = columns - j;
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(some));
    // The contributions of the offsets: the left one's is the same for all rows, the right one's
    // for all columns.
    int32x4_t common =
        vmulq_n_s32(multiply_columns<true>(nullptr, right, some, inner), p.left_offset);
    common = vaddq_n_s32(common, wrapping_mul(inner, p.left_offset * p.right_offset));
    if (start != nullptr) {
      common = vaddq_s32(common, vldrwq_z_s32(start + j, active));
    }
    const int8_t* x = left;
    int8_t* to = out + j;
    for (int32_t i = 0; i < rows; ++i) {
      int32x4_t sums = vaddq_s32(multiply_columns<false>(x, right, some, inner), common);
      if (p.right_offset != 0) {
        int32_t sum = 0;
        for (int32_t k = 0; k < inner; k += 16) {
          sum = vaddvaq_s8(sum, vldrbq_z_s8(x + k, vctp8q(static_cast<uint32_t>(inner - k))));
        }
        sums = vaddq_n_s32(sums, wrapping_mul(sum, p.right_offset));
      }
      // Halves are rounded away from zero.
      int32x4_t value = vqrdmulhq_n_s32(sums, p.factor.multiplier);
      value = vrshlq_n_s32(vaddq_s32(value, vshrq_n_s32(value, 31)), p.factor.shift);
      value = vminq_s32(vmaxq_s32(vaddq_n_s32(value, p.output_offset), min), max);
      vstrbq_p_s32(to, value, active);
      x += inner;
      to += columns;
    }
    right += 4 * inner;
  }
}

#elif defined(__ARM_FEATURE_DSP)

/// Rows of the left matrix that are multiplied at a time, and how long they may be.
constexpr int32_t kLanes = 4;
constexpr int32_t kMaxInner = 64;

/// The last one to three of `count` bytes in a word, and zeros.
uint32_t last_bytes(const int8_t* from, int32_t count) {
  return load_word(from + count - 4) >> (32 - 8 * (count % 4));
}

/// Writes `count` bytes (at least four) and an offset as pairs of 16-bit numbers into a lane: bytes
/// 0 and 2, then 1 and 3, and zeros until there are four.
void expand_row(const int8_t* from, int32_t offset, int32_t count, uint32_t* to) {
  const int16x2_t offsets = twice(offset);
  for (int32_t i = count / 4; i > 0; --i) {
    const uint32_t word = load_word(from);
    from += 4;
    to[0] = static_cast<uint32_t>(add_even_bytes(offsets, word));
    to[kLanes] = static_cast<uint32_t>(add_odd_bytes(offsets, word));
    to += 2 * kLanes;
  }
  if (const int32_t rest = count % 4) {
    const uint32_t word = last_bytes(from - (count & ~3), count);
    const auto even = static_cast<uint32_t>(add_even_bytes(offsets, word));
    const auto odd = static_cast<uint32_t>(add_odd_bytes(offsets, word));
    to[0] = rest == 3 ? even : even & 0xffffu;
    to[kLanes] = rest == 1 ? 0 : odd & 0xffffu;
  }
}

/// The products of a column with four rows: fourteen registers hold it all.
#define COLUMN_PRODUCTS                      \
  "sxtab16 %[v], %[offsets], %[w]\n"         \
  "sxtab16 %[w], %[offsets], %[w], ror #8\n" \
  "ldrd %[a], %[b], [%[x]], #8\n"            \
  "smlad %[s0], %[a], %[v], %[s0]\n"         \
  "smlad %[s1], %[b], %[v], %[s1]\n"         \
  "ldrd %[a], %[b], [%[x]], #8\n"            \
  "smlad %[s2], %[a], %[v], %[s2]\n"         \
  "smlad %[s3], %[b], %[v], %[s3]\n"         \
  "ldrd %[a], %[b], [%[x]], #8\n"            \
  "smlad %[s0], %[a], %[w], %[s0]\n"         \
  "smlad %[s1], %[b], %[w], %[s1]\n"         \
  "ldrd %[a], %[b], [%[x]], #8\n"            \
  "smlad %[s2], %[a], %[w], %[s2]\n"         \
  "smlad %[s3], %[b], %[w], %[s3]\n"
#define COLUMN_OPERANDS                                                                  \
  [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x] "+r"(x), [a] "=&r"(a), \
      [b] "=&r"(b), [v] "=&r"(v)

/// The products of up to four rows with all columns, without sums to start from and to any int8, by
/// `scale`.
void multiply_rows(
    const MatmulParameters& p,
    const FoldedScale& scale,
    const int8_t* left,
    int32_t rows,
    const int8_t* right,
    int32_t columns,
    int32_t inner,
    int8_t* out) {
  alignas(8) uint32_t expanded[2 * kLanes * kMaxInner / 4];
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    expand_row(left + (lane < rows ? lane : 0) * inner, p.left_offset, inner, expanded + lane);
  }
  const int16x2_t offsets = twice(p.right_offset);
  const FoldedScale scaled = scale;
  const int32_t whole = inner & ~3;
  // A missing row writes to the first one, which is written last.
  int8_t* const out1 = rows > 1 ? out + columns : out;
  int8_t* const out2 = rows > 2 ? out1 + columns : out;
  int8_t* const out3 = rows > 3 ? out2 + columns : out;
  for (int32_t j = 0; j < columns; ++j) {
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    const uint32_t* x = expanded;
    const int8_t* const end = right + whole;
    uint32_t a, b, v, w;
    __asm__ volatile(
        "1:\n"
        "ldr %[w], [%[right]], #4\n" COLUMN_PRODUCTS
        "cmp %[right], %[end]\n"
        "bne 1b\n"
        : COLUMN_OPERANDS, [w] "=&r"(w), [right] "+r"(right)
        : [offsets] "r"(offsets), [end] "r"(end)
        : "memory", "cc");
    if (whole != inner) {
      right += inner - whole;
      w = last_bytes(right - inner, inner);
      __asm__ volatile(COLUMN_PRODUCTS
                       : COLUMN_OPERANDS, [w] "+r"(w)
                       : [offsets] "r"(offsets)
                       : "memory");
    }
    out3[j] = scaled.apply(s3 * 2);
    out2[j] = scaled.apply(s2 * 2);
    out1[j] = scaled.apply(s1 * 2);
    out[j] = scaled.apply(s0 * 2);
  }
}

#undef COLUMN_OPERANDS
#undef COLUMN_PRODUCTS

#endif

} // namespace

void matmul(
    const MatmulParameters& parameters,
    const int8_t* left,
    int32_t rows,
    const int8_t* right,
    int32_t columns,
    const int32_t* start,
    int32_t inner,
    int8_t* out) {
  const MatmulParameters p = parameters;
  const auto store = [&](int32_t sum) {
    *out++ = p.range.clamp(wrapping_add(requantize(sum, p.factor), p.output_offset));
  };
#if defined(__ARM_FEATURE_MVE)
  if (p.factor.shift < 0 && p.factor.shift >= -31 && p.factor.multiplier >= 0) {
    multiply_vectors(p, left, rows, right, columns, start, inner, out);
    return;
  }
#elif defined(__ARM_FEATURE_DSP)
  const bool is_whole = p.range.min == -128 && p.range.max == 127;
  if (start == nullptr && is_whole && inner >= 4 && inner <= kMaxInner &&
      FoldedScale::takes(p.factor)) {
    const FoldedScale scale(p.factor, p.output_offset);
    for (; rows > 1; rows -= kLanes) {
      multiply_rows(p, scale, left, rows, right, columns, inner, out);
      left += kLanes * inner;
      out += kLanes * columns;
    }
  }
#endif
  for (int32_t i = 0; i < rows; ++i) {
    const int8_t* weight = right;
    int32_t j = 0;
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
    for (; j + 2 <= columns; j += 2) {
      int32_t first = start == nullptr ? 0 : start[j];
      int32_t second = start == nullptr ? 0 : start[j + 1];
      dot_two<true>(left, p.left_offset, weight, inner, p.right_offset, inner, first, second);
      store(first);
      store(second);
      weight += 2 * inner;
    }
#endif
    for (; j < columns; ++j) {
      const int32_t sum = wrapping_add(
          start == nullptr ? 0 : start[j],
          dot<true>(left, p.left_offset, weight, p.right_offset, inner));
      weight += inner;
      store(sum);
    }
    left += inner;
  }
}

} // namespace torch::executor::native::cortex_m
