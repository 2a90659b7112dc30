#include "kernels/cortex_m/linear.h"

#include "kernels/cortex_m/dot.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)

/// The sums of `(x[i] + x_offset) * w[i]` modulo 2^32 with two columns of weights.
ET_INLINE void dot_columns(
    const int8_t* x,
    int32_t x_offset,
    const int8_t* first,
    const int8_t* second,
    int32_t count,
    int32_t& s0,
    int32_t& s1) {
  const auto offsets = static_cast<int16x2_t>((x_offset & 0xffff) * 0x10001);
  for (; count >= 4; count -= 4) {
    const uint32_t word = load_word(x);
    const int16x2_t even = __sadd16(even_bytes(word), offsets);
    const int16x2_t odd = __sadd16(odd_bytes(word), offsets);
    const uint32_t a = load_word(first);
    const uint32_t b = load_word(second);
    s0 = dot2(even, even_bytes(a), s0);
    s0 = dot2(odd, odd_bytes(a), s0);
    s1 = dot2(even, even_bytes(b), s1);
    s1 = dot2(odd, odd_bytes(b), s1);
    x += 4;
    first += 4;
    second += 4;
  }
  for (; count > 0; --count) {
    const int32_t value = *x++ + x_offset;
    s0 = wrapping_add(s0, value * *first++);
    s1 = wrapping_add(s1, value * *second++);
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
  for (int32_t i = 0; i < rows; ++i) {
    const int8_t* weight = right;
    int32_t j = 0;
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
    // What the weights' offset adds is the same for all columns.
    int32_t common = 0;
    if (p.right_offset != 0) {
      for (int32_t k = 0; k < inner; ++k) {
        common += left[k] + p.left_offset;
      }
      common = wrapping_mul(common, p.right_offset);
    }
    for (; j + 2 <= columns; j += 2) {
      int32_t first = wrapping_add(common, start == nullptr ? 0 : start[j]);
      int32_t second = wrapping_add(common, start == nullptr ? 0 : start[j + 1]);
      dot_columns(left, p.left_offset, weight, weight + inner, inner, first, second);
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
