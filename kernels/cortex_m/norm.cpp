#include "kernels/cortex_m/norm.h"

#include <cstring>

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/requantize.h"
#include "kernels/math/round.h"

namespace torch::executor::native::cortex_m {

namespace {

/// The sum of a group's values, and that of their squares.
struct Sums {
  int32_t values = 0;
  uint32_t squares = 0;

  void add(int32_t value) {
    values += value;
    squares += static_cast<uint32_t>(value * value);
  }
};

void add_run(Sums& sums, const int8_t* in, int32_t count) {
#ifdef __ARM_FEATURE_DSP
  int32_t values = 0;
  auto squares = static_cast<int32_t>(sums.squares);
  const int16x2_t ones = twice(1);
  for (; count >= 4; count -= 4) {
    const uint32_t word = load_word(in);
    const int16x2_t even = even_bytes(word);
    const int16x2_t odd = odd_bytes(word);
    values = dot2(even, ones, values);
    squares = dot2(even, even, squares);
    values = dot2(odd, ones, values);
    squares = dot2(odd, odd, squares);
    in += 4;
  }
  sums.values += values;
  sums.squares = static_cast<uint32_t>(squares);
#endif
  for (; count > 0; --count) {
    sums.add(*in++);
  }
}

/// A group's values times a factor, less its center, with this many bits to drop.
struct Scale {
  int32_t factor;
  int32_t offset;
  int32_t shift;
};

/// Truncates a number to its upper 24 bits, in single precision.
float truncated(uint64_t value) {
  int32_t shift = 0;
  while (value >> 24 != 0) {
    value >>= 1;
    ++shift;
  }
  const uint32_t bits = static_cast<uint32_t>(127 + shift) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return static_cast<float>(static_cast<int32_t>(value)) * power;
}

Scale scale_of(const Normalization& norm, const Sums& sums) {
  const int32_t count = norm.channels * norm.pixels;
  const auto size = static_cast<float>(count);
  int64_t squares = sums.squares;
  float center = static_cast<float>(norm.center);
  // The mean square times the square of `count`.
  if (norm.is_centered) {
    center = static_cast<float>(sums.values) / size;
    squares = squares * count - int64_t{sums.values} * sums.values;
  } else {
    squares -= 2 * int64_t{norm.center} * sums.values;
    squares = (squares + int64_t{norm.center} * norm.center * count) * count;
  }
  const float spread =
      truncated(static_cast<uint64_t>(squares)) + rounded(rounded(norm.epsilon * size) * size);
  if (spread == 0.0f) {
    return {0, 0, 0};
  }
  // Normalized values are at most the root of `count`, which with these bits behind the point
  // leaves them less than 15 bits.
  int32_t bits = 14;
  for (int32_t limit = 1; limit < count; limit *= 4) {
    --bits;
  }
  const float factor = rounded(size * static_cast<float>(1 << bits)) / math::sqrt(spread);
  uint32_t pattern;
  std::memcpy(&pattern, &factor, sizeof(pattern));
  int32_t shift = 149 - static_cast<int32_t>(pattern >> 23);
  uint32_t mantissa = ((pattern & 0x7fffff) | 0x800000) >> 1;
  if (shift > 31) {
    mantissa = shift > 60 ? 0 : mantissa >> (shift - 31);
    shift = 31;
  }
  shift = shift < 1 ? 1 : shift;
  const auto offset = static_cast<int32_t>(rounded(center * static_cast<float>(mantissa)));
  const uint32_t half = 1u << (shift - 1);
  return {
      static_cast<int32_t>(mantissa),
      static_cast<int32_t>(half - static_cast<uint32_t>(offset)),
      shift};
}

/// Shifted to the right and saturated to int8.
ET_INLINE int8_t saturated(int32_t value, int32_t shift) {
#ifdef __ARM_FEATURE_SAT
  return static_cast<int8_t>(cortex_m::saturated<8>(value >> shift));
#else
  return Range{-128, 127}.clamp(value >> shift);
#endif
}

ET_INLINE int8_t
normalized(int32_t value, const Scale& scale, int32_t weight, int32_t bias, int32_t shift) {
  const int32_t factor = wrapping_add(wrapping_mul(value, scale.factor), scale.offset);
  return saturated(wrapping_add(wrapping_mul(factor >> scale.shift, weight), bias), shift);
}

} // namespace

void normalize(const Normalization& norm, const int8_t* in, int8_t* out) {
  // The inner one of two loops runs over contiguous elements.
  const bool by_pixels = norm.pixel_step == 1 && norm.pixels > 1;
  const int32_t inner = by_pixels ? norm.pixels : norm.channels;
  const int32_t outer = by_pixels ? norm.channels : norm.pixels;
  const int32_t outer_step = by_pixels ? norm.channel_step : norm.pixel_step;
  Sums sums;
  for (int32_t i = 0; i < outer; ++i) {
    add_run(sums, in + i * outer_step, inner);
  }
  const Scale scale = scale_of(norm, sums);
  const int32_t shift = norm.shift;
  for (int32_t i = 0; i < outer; ++i) {
    const int8_t* const from = in + i * outer_step;
    int8_t* const to = out + i * outer_step;
    if (by_pixels) {
      const int32_t weight = norm.weight[i];
      const int32_t bias = norm.bias[i];
      for (int32_t j = 0; j < inner; ++j) {
        to[j] = normalized(from[j], scale, weight, bias, shift);
      }
    } else {
      // Copied here, because the compiler must assume that writes could change the pointers
      // themselves.
      const int16_t* weight = norm.weight;
      const int32_t* bias = norm.bias;
      const int8_t* next = from;
      int8_t* place = to;
      for (const int8_t* const end = from + inner; next != end;) {
        *place++ = normalized(*next++, scale, *weight++, *bias++, shift);
      }
    }
  }
}

} // namespace torch::executor::native::cortex_m
