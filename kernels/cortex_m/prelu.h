#pragma once

#include <cstdint>

namespace torch::executor::native::cortex_m {

/// The most fractional bits of factors, which are at most 1 << kMaxPreluShift, so that the sum of
/// their products and an output's zero point fits in 32 bits.
constexpr int32_t kMaxPreluShift = 22;

/// The parameters of quantized_prelu, and the layout of a channel's elements: `outer` times,
/// `inner` contiguous elements of each channel.
struct Prelu {
  /// The factors of values below the zero point, per channel, and that of the others.
  const int32_t* negative;
  int32_t positive;
  int32_t zero_point;
  /// The output's zero point with `shift` fractional bits, plus the rounding constant.
  int32_t addend;
  int32_t shift;
  int32_t outer;
  int32_t channels;
  int32_t inner;
};

/// Multiplies each element's distance from the zero point. An output may be at the address of its
/// input.
void prelu(const Prelu& parameters, const int8_t* in, int8_t* out);

} // namespace torch::executor::native::cortex_m
