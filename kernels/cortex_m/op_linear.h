#pragma once

#include <optional>

#include "kernels/cortex_m/linear.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// The arguments of a linear layer, in the order of its schema.
struct LinearArguments {
  const Tensor& input;
  const Tensor& weights;
  const std::optional<Tensor>& bias;
  const std::optional<Tensor>& kernel_sum;
  int64_t input_offset;
  int64_t filter_offset;
  int64_t output_offset;
  const ArrayRef<int64_t>& multipliers;
  const ArrayRef<int64_t>& shifts;
  int64_t activation_max;
  int64_t activation_min;
};

/// The arguments of a product of batches of matrices, in the order of its schema.
struct BatchMatmulArguments {
  const Tensor& lhs;
  int64_t lhs_zero_point;
  const Tensor& rhs_transposed;
  int64_t rhs_zero_point;
  int64_t output_zero_point;
  int64_t output_multiplier;
  int64_t output_shift;
};

/// The parameters of a matrix product; `start` may be null.
struct PreparedMatmul {
  MatmulParameters parameters;
  const int32_t* start = nullptr;
  /// The shape of the result.
  Shape sizes;
};

/// Checks all arguments, and derives the parameters of the computation. Fails the context and
/// returns false if they do not match.
bool check_linear(
    KernelRuntimeContext& ctx,
    const LinearArguments& arguments,
    const Tensor& out,
    PreparedMatmul& prepared);

/// Does the same as check_linear().
bool check_batch_matmul(
    KernelRuntimeContext& ctx,
    const BatchMatmulArguments& arguments,
    const Tensor& out,
    PreparedMatmul& prepared);

/// cortex_m::quantized_linear.out, contiguous; weights are [out_features, in_features].
/// `kernel_sum` combines the bias and the input's offset, as in programs for MVE.
template <class S>
Tensor& quantized_linear_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weights,
    const std::optional<Tensor>& bias,
    const std::optional<Tensor>& kernel_sum,
    int64_t input_offset,
    int64_t filter_offset,
    int64_t output_offset,
    ArrayRef<int64_t> requantize_multipliers,
    ArrayRef<int64_t> requantize_shifts,
    int64_t activation_max,
    int64_t activation_min,
    Tensor& out) {
  const LinearArguments arguments = {
      input,
      weights,
      bias,
      kernel_sum,
      input_offset,
      filter_offset,
      output_offset,
      requantize_multipliers,
      requantize_shifts,
      activation_max,
      activation_min};
  PreparedMatmul prepared;
  if (check_linear(ctx, arguments, out, prepared) && shape_out<S>(ctx, out, prepared.sizes)) {
    const int32_t columns = weights.sizes()[0];
    matmul(
        prepared.parameters,
        input.const_data_ptr<int8_t>(),
        columns == 0 ? 0 : static_cast<int32_t>(out.numel()) / columns,
        weights.const_data_ptr<int8_t>(),
        columns,
        prepared.start,
        weights.sizes()[1],
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// cortex_m::quantized_batch_matmul.out, contiguous; zero points are negated, as the schema's
/// callers give them; needs no scratch.
template <class S>
Tensor& quantized_batch_matmul_out(
    KernelRuntimeContext& ctx,
    const Tensor& lhs,
    int64_t lhs_zero_point,
    const Tensor& rhs_transposed,
    int64_t rhs_zero_point,
    int64_t output_zero_point,
    int64_t output_multiplier,
    int64_t output_shift,
    const Tensor& /*scratch*/,
    Tensor& out) {
  const BatchMatmulArguments arguments = {
      lhs,
      lhs_zero_point,
      rhs_transposed,
      rhs_zero_point,
      output_zero_point,
      output_multiplier,
      output_shift};
  PreparedMatmul prepared;
  if (check_batch_matmul(ctx, arguments, out, prepared) && shape_out<S>(ctx, out, prepared.sizes)) {
    const int32_t rows = lhs.sizes()[1];
    const int32_t inner = lhs.sizes()[2];
    const int32_t columns = rhs_transposed.sizes()[1];
    for (int32_t i = 0; i < lhs.sizes()[0]; ++i) {
      matmul(
          prepared.parameters,
          lhs.const_data_ptr<int8_t>() + i * rows * inner,
          rows,
          rhs_transposed.const_data_ptr<int8_t>() + i * columns * inner,
          columns,
          nullptr,
          inner,
          out.mutable_data_ptr<int8_t>() + i * rows * columns);
    }
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
