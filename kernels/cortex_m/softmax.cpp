#include "kernels/cortex_m/op_softmax.h"

#include <cstring>

#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// SOFTMAX_INPUT_INTEGER_BITS of the dialect's Python: inputs are scaled to that many bits before
/// the point of a 32-bit number.
constexpr int32_t kIntegerBits = 5;

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

bool check_softmax(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    int64_t dim,
    int64_t input_zero_point,
    int64_t output_zero_point,
    int64_t input_multiplier,
    int64_t input_shift,
    const Tensor& out,
    Split& split,
    int32_t& zero_point,
    float& scale) {
  const int32_t dims = static_cast<int32_t>(input.dim());
  const int32_t index = normalize_dim(ctx, dim, dims);
  Factor factor;
  if (index < 0 || !check_int8(ctx, input, out) ||
      !check_offset(ctx, input_zero_point, zero_point) ||
      !check_factor(ctx, input_multiplier, input_shift, factor)) {
    return false;
  }
  KERNEL_CHECK(
      ctx,
      output_zero_point == -128,
      InvalidArgument,
      false,
      "The output's zero point of a softmax has to be -128");
  KERNEL_CHECK(
      ctx,
      factor.multiplier > 0,
      InvalidArgument,
      false,
      "The input's scale of a softmax is not positive");
  KERNEL_CHECK(
      ctx,
      out.dim() == dims && same_dim_order(input, out),
      InvalidArgument,
      false,
      "input and out lie in different dim orders");
  scale = scale_of(factor) * (1.0f / static_cast<float>(1 << (31 - kIntegerBits)));
  split = {1, 1, 1};
  bool found = dims == 0;
  for (int32_t i = 0; i < dims; ++i) {
    const int32_t at = input.dim_order()[i];
    const size_t size = static_cast<size_t>(input.sizes()[at]);
    if (at == index) {
      split.size = size;
      found = true;
    } else if (found) {
      split.inner *= size;
    } else {
      split.outer *= size;
    }
  }
  return true;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
