#include "kernels/cortex_m/op_linear.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

bool check_linear(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weights,
    const std::optional<Tensor>& bias,
    const std::optional<Tensor>& kernel_sum,
    int64_t input_offset,
    int64_t filter_offset,
    int64_t output_offset,
    const ArrayRef<int64_t>& requantize_multipliers,
    const ArrayRef<int64_t>& requantize_shifts,
    int64_t activation_max,
    int64_t activation_min,
    const Tensor& out,
    MatmulParameters& parameters,
    const int32_t*& start,
    Shape& sizes) {
  if (!check_int8(ctx, input, weights, out) || !contiguous_or_fail(ctx, input) ||
      !contiguous_or_fail(ctx, weights) || !contiguous_or_fail(ctx, out)) {
    return false;
  }
  const auto in_sizes = input.sizes();
  KERNEL_CHECK(
      ctx,
      weights.dim() == 2 && in_sizes.size() >= 1 &&
          in_sizes[in_sizes.size() - 1] == weights.sizes()[1],
      InvalidArgument,
      false,
      "weights is not [out_features, in_features]");
  KERNEL_CHECK(
      ctx,
      requantize_multipliers.size() >= 1 && requantize_shifts.size() >= 1,
      InvalidArgument,
      false,
      "A list of multipliers or shifts is empty");
  if (!check_offset(ctx, filter_offset, parameters.right_offset) ||
      !check_offset(ctx, input_offset, parameters.left_offset) ||
      !check_offset(ctx, output_offset, parameters.output_offset) ||
      !check_factor(ctx, requantize_multipliers[0], requantize_shifts[0], parameters.factor) ||
      !check_range(ctx, activation_min, activation_max, parameters.range)) {
    return false;
  }
  const std::optional<Tensor>& starts = kernel_sum.has_value() ? kernel_sum : bias;
  if (kernel_sum.has_value()) {
    parameters.left_offset = 0;
  }
  start = nullptr;
  if (starts.has_value()) {
    KERNEL_CHECK(
        ctx,
        starts->scalar_type() == ScalarType::Int,
        InvalidType,
        false,
        "bias or kernel_sum is not int32");
    KERNEL_CHECK(
        ctx,
        starts->numel() == weights.sizes()[0],
        InvalidArgument,
        false,
        "bias or kernel_sum does not have one element per output feature");
    start = starts->const_data_ptr<int32_t>();
  }
  for (size_t i = 0; i + 1 < in_sizes.size(); ++i) {
    sizes.append(in_sizes[i]);
  }
  sizes.append(weights.sizes()[0]);
  return true;
}

bool check_batch_matmul(
    KernelRuntimeContext& ctx,
    const Tensor& lhs,
    int64_t lhs_zero_point,
    const Tensor& rhs_transposed,
    int64_t rhs_zero_point,
    int64_t output_zero_point,
    int64_t output_multiplier,
    int64_t output_shift,
    const Tensor& out,
    MatmulParameters& parameters,
    Shape& sizes) {
  if (!check_int8(ctx, lhs, rhs_transposed, out) || !contiguous_or_fail(ctx, lhs) ||
      !contiguous_or_fail(ctx, rhs_transposed) || !contiguous_or_fail(ctx, out)) {
    return false;
  }
  const auto left = lhs.sizes();
  const auto right = rhs_transposed.sizes();
  KERNEL_CHECK(
      ctx,
      left.size() == 3 && right.size() == 3 && left[0] == right[0] && left[2] == right[2],
      InvalidArgument,
      false,
      "lhs and rhs_transposed are not [batch, rows, inner] and [batch, columns, inner]");
  if (!check_offset(ctx, lhs_zero_point, parameters.left_offset) ||
      !check_offset(ctx, rhs_zero_point, parameters.right_offset) ||
      !check_offset(ctx, output_zero_point, parameters.output_offset) ||
      !check_factor(ctx, output_multiplier, output_shift, parameters.factor)) {
    return false;
  }
  parameters.range = {-128, 127};
  sizes.append(left[0]);
  sizes.append(left[1]);
  sizes.append(right[1]);
  return true;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
