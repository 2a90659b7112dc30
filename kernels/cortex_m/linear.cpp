#include "kernels/cortex_m/linear.h"

#include <cstring>

#include "kernels/cortex_m/dot.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)

/// Rows of the left matrix that are multiplied at a time, and how long they may be.
constexpr int32_t kLanes = 4;
constexpr int32_t kMaxInner = 64;

int16x2_t pair_of(int32_t value) {
  return static_cast<int16x2_t>((value & 0xffff) * 0x10001u);
}

/// The last one to three of `count` bytes in a word, and zeros.
uint32_t last_bytes(const int8_t* from, int32_t count) {
  return load_word(from + count - 4) >> (32 - 8 * (count % 4));
}

/// Writes `count` bytes (at least four) and an offset as pairs of 16-bit numbers into a lane: bytes
/// 0 and 2, then 1 and 3, and zeros until there are four.
void expand_row(const int8_t* from, int32_t offset, int32_t count, uint32_t* to) {
  const int16x2_t offsets = pair_of(offset);
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

/// The products of up to four rows with all columns, without sums to start from, by `scale`.
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
  const int16x2_t offsets = pair_of(p.right_offset);
  const FoldedScale scaled = scale;
  const Range range = p.range;
  const int32_t whole = inner & ~3;
  // A row that is not there has the place of the first, which is written last.
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
    out3[j] = range.clamp(scaled.apply(s3 * 2));
    out2[j] = range.clamp(scaled.apply(s2 * 2));
    out1[j] = range.clamp(scaled.apply(s1 * 2));
    out[j] = range.clamp(scaled.apply(s0 * 2));
  }
}

#undef COLUMN_OPERANDS
#undef COLUMN_PRODUCTS

/// The sums of `(x[i] + x_offset) * (w[i] + w_offset)` modulo 2^32 with two columns of weights.
ET_INLINE void dot_columns(
    const int8_t* x,
    int32_t x_offset,
    const int8_t* first,
    const int8_t* second,
    int32_t w_offset,
    int32_t count,
    int32_t& s0,
    int32_t& s1) {
  const int16x2_t x_offsets = pair_of(x_offset);
  const int16x2_t w_offsets = pair_of(w_offset);
  for (; count >= 4; count -= 4) {
    const uint32_t word = load_word(x);
    const int16x2_t even = add_even_bytes(x_offsets, word);
    const int16x2_t odd = add_odd_bytes(x_offsets, word);
    const uint32_t a = load_word(first);
    const uint32_t b = load_word(second);
    s0 = dot2(even, add_even_bytes(w_offsets, a), s0);
    s0 = dot2(odd, add_odd_bytes(w_offsets, a), s0);
    s1 = dot2(even, add_even_bytes(w_offsets, b), s1);
    s1 = dot2(odd, add_odd_bytes(w_offsets, b), s1);
    x += 4;
    first += 4;
    second += 4;
  }
  for (; count > 0; --count) {
    const int32_t value = *x++ + x_offset;
    s0 = wrapping_add(s0, value * (*first++ + w_offset));
    s1 = wrapping_add(s1, value * (*second++ + w_offset));
  }
}

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
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
  if (start == nullptr && inner >= 4 && inner <= kMaxInner && FoldedScale::takes(p.factor)) {
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
      dot_columns(
          left, p.left_offset, weight, weight + inner, p.right_offset, inner, first, second);
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

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
