#pragma once

#include <cstdint>

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Most bits behind the point of factors, which are at most 1 << kMaxPreluShift, and whose products
/// have a sum of 32 bits with an output's zero point then.
constexpr int32_t kMaxPreluShift = 22;

/// What quantized_prelu computes with, and where the elements of a channel lie: `outer` times, of
/// each channel, `inner` of them together.
struct Prelu {
  /// Per channel, of what is below the zero point, and of what is not.
  const int32_t* negative;
  int32_t positive;
  int32_t zero_point;
  /// The output's zero point with `shift` bits behind the point, and what rounds.
  int32_t addend;
  int32_t shift;
  int32_t outer;
  int32_t channels;
  int32_t inner;
};

/// A product of each element's distance from the zero point. An output may lie where its input
/// does.
void prelu(const Prelu& parameters, const int8_t* in, int8_t* out);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
