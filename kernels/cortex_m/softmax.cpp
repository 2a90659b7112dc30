#include "kernels/cortex_m/softmax.h"

#include <cstring>

#include "kernels/cortex_m/requantize.h"
#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// e^(value - most), of a value that is quantized.
ET_INLINE float exponential(int32_t value, float scale, float most) {
  return math::exp_nonpositive(rounded(static_cast<float>(value) * scale) - most);
}

__attribute__((noinline)) float exponential_again(int32_t value, float scale, float most) {
  return exponential(value, scale, most);
}

} // namespace

void softmax(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    int32_t zero_point,
    float scale) {
  int32_t largest = -128;
  for (size_t i = 0; i < count; ++i) {
    const int32_t value = in[i * step];
    largest = value > largest ? value : largest;
  }
  const float most = static_cast<float>(largest - zero_point) * scale;
  // The first ones are kept.
  constexpr size_t kKept = 64;
  float kept[kKept];
  float sum = 0.0f;
  for (size_t i = 0; i < count; ++i) {
    const float value = exponential(in[i * step] - zero_point, scale, most);
    sum += value;
    if (i < kKept) {
      kept[i] = value;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    // Halves to even by adding 1.5 * 2^23: the integer is in the lowest bits then. What is none, as
    // where a corrupted program lays the output over the input, is some integer, too.
    constexpr float kRound = 12582912.0f;
    constexpr uint32_t kRoundBits = 0x4B400000;
    const float value =
        i < kKept ? kept[i] : exponential_again(in[i * step] - zero_point, scale, most);
    const float nearest = rounded(value / sum * 256.0f) + kRound;
    uint32_t bits;
    std::memcpy(&bits, &nearest, sizeof(bits));
    out[i * step] = Range{-128, 127}.clamp(static_cast<int32_t>(bits - kRoundBits - 128));
  }
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
