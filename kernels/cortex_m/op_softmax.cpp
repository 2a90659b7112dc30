#include "kernels/cortex_m/op_softmax.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// SOFTMAX_INPUT_INTEGER_BITS of the dialect's Python: inputs are scaled to that many bits before
/// the point of a 32-bit number.
constexpr int32_t kIntegerBits = 5;

} // namespace

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
