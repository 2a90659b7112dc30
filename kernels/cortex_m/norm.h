#pragma once

#include <cstdint>

namespace torch::executor::native::cortex_m {

/// Most values that are normalized together: their squares have a sum of 32 bits then.
constexpr int32_t kMaxNormalized = 0xffff;

/**
 * How groups of int8 values are normalized: each value less the center of its group, by the square
 * root of the mean square of these differences, times the weight of its channel, plus the bias.
 */
struct Normalization {
  /// One per channel, scaled so that the product of a value and its weight has `shift` fractional
  /// bits. Biases include the output's zero point and the rounding constant.
  const int16_t* weight;
  const int32_t* bias;
  /// The number of channels of one group, and of values of each.
  int32_t channels;
  int32_t pixels;
  /// The distance from a value to the next one, in elements.
  int32_t channel_step;
  int32_t pixel_step;
  /// True if the center is the mean; else it is `center`.
  bool is_centered;
  int32_t center;
  /// Added to the mean square, in squared units of the input.
  float epsilon;
  int32_t shift;
};

/// Normalizes one group in integers, but for the factor of the group, which takes some operations
/// in single precision that IEEE 754 rounds the same everywhere.
void normalize(const Normalization& norm, const int8_t* in, int8_t* out);

} // namespace torch::executor::native::cortex_m
