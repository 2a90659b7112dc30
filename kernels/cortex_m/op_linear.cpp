#include "kernels/cortex_m/op_linear.h"

namespace torch::executor::native::cortex_m {

bool check_linear(
    KernelRuntimeContext& ctx,
    const LinearArguments& arguments,
    const Tensor& out,
    PreparedMatmul& prepared) {
  const Tensor& input = arguments.input;
  const Tensor& weights = arguments.weights;
  MatmulParameters& parameters = prepared.parameters;
  if (!check_int8(ctx, input, weights, out) || !contiguous_or_fail(ctx, input) ||
      !contiguous_or_fail(ctx, weights) || !contiguous_or_fail(ctx, out)) {
    return false;
  }
  const auto in_sizes = input.sizes();
  CHECK_ARGUMENT(
      ctx,
      weights.dim() == 2 && in_sizes.size() >= 1 &&
          in_sizes[in_sizes.size() - 1] == weights.sizes()[1],
      "weights is not [out_features, in_features]");
  CHECK_ARGUMENT(
      ctx,
      arguments.multipliers.size() >= 1 && arguments.shifts.size() >= 1,
      "A list of multipliers or shifts is empty");
  if (!check_offset(ctx, arguments.filter_offset, parameters.right_offset) ||
      !check_offset(ctx, arguments.input_offset, parameters.left_offset) ||
      !check_offset(ctx, arguments.output_offset, parameters.output_offset) ||
      !check_factor(ctx, arguments.multipliers[0], arguments.shifts[0], parameters.factor) ||
      !check_range(ctx, arguments.activation_min, arguments.activation_max, parameters.range)) {
    return false;
  }
  const std::optional<Tensor>& starts =
      arguments.kernel_sum.has_value() ? arguments.kernel_sum : arguments.bias;
  if (arguments.kernel_sum.has_value()) {
    parameters.left_offset = 0;
  }
  if (starts.has_value()) {
    if (!dtype_or_fail(ctx, *starts, ScalarType::Int, "bias or kernel_sum")) {
      return false;
    }
    CHECK_ARGUMENT(
        ctx,
        starts->numel() == weights.sizes()[0],
        "bias or kernel_sum does not have one element per output feature");
    prepared.start = starts->const_data_ptr<int32_t>();
  }
  for (size_t i = 0; i + 1 < in_sizes.size(); ++i) {
    prepared.sizes.append(in_sizes[i]);
  }
  prepared.sizes.append(weights.sizes()[0]);
  return true;
}

bool check_batch_matmul(
    KernelRuntimeContext& ctx,
    const BatchMatmulArguments& arguments,
    const Tensor& out,
    PreparedMatmul& prepared) {
  const Tensor& lhs = arguments.lhs;
  const Tensor& rhs_transposed = arguments.rhs_transposed;
  MatmulParameters& parameters = prepared.parameters;
  if (!check_int8(ctx, lhs, rhs_transposed, out) || !contiguous_or_fail(ctx, lhs) ||
      !contiguous_or_fail(ctx, rhs_transposed) || !contiguous_or_fail(ctx, out)) {
    return false;
  }
  const auto left = lhs.sizes();
  const auto right = rhs_transposed.sizes();
  CHECK_ARGUMENT(
      ctx,
      left.size() == 3 && right.size() == 3 && left[0] == right[0] && left[2] == right[2],
      "lhs and rhs_transposed are not [batch, rows, inner] and [batch, columns, inner]");
  if (!check_offset(ctx, arguments.lhs_zero_point, parameters.left_offset) ||
      !check_offset(ctx, arguments.rhs_zero_point, parameters.right_offset) ||
      !check_offset(ctx, arguments.output_zero_point, parameters.output_offset) ||
      !check_factor(ctx, arguments.output_multiplier, arguments.output_shift, parameters.factor)) {
    return false;
  }
  parameters.range = {-128, 127};
  prepared.sizes.append(left[0]);
  prepared.sizes.append(left[1]);
  prepared.sizes.append(right[1]);
  return true;
}

} // namespace torch::executor::native::cortex_m
