#include "kernels/cortex_m/softmax.h"

#include <cstring>

#include "kernels/cortex_m/requantize.h"
#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

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
  const auto exponential = [&](int8_t value) {
    return math::exp(rounded(static_cast<float>(value - zero_point) * scale) - most);
  };
  float sum = 0.0f;
  for (size_t i = 0; i < count; ++i) {
    sum += exponential(in[i * step]);
  }
  for (size_t i = 0; i < count; ++i) {
    // Halves to even by adding 1.5 * 2^23: the integer is in the lowest bits then. What is none, as
    // where a corrupted program lays the output over the input, is some integer, too.
    constexpr float kRound = 12582912.0f;
    constexpr uint32_t kRoundBits = 0x4B400000;
    const float nearest = rounded(exponential(in[i * step]) / sum * 256.0f) + kRound;
    uint32_t bits;
    std::memcpy(&bits, &nearest, sizeof(bits));
    out[i * step] = Range{-128, 127}.clamp(static_cast<int32_t>(bits - kRoundBits) - 128);
  }
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
