#include "kernels/quantized/op_quantize.h"

namespace torch::executor::native {

bool split_channels(KernelRuntimeContext& ctx, const Tensor& input, int64_t axis, Split& split) {
  const int32_t dim = normalize_dim(ctx, axis, static_cast<int32_t>(input.dim()));
  if (dim >= 0) {
    split = split_at(input.sizes(), static_cast<size_t>(dim));
  }
  return dim >= 0;
}

Split split_tokens(const Tensor& input) {
  const size_t dims = static_cast<size_t>(input.dim());
  const Split split = split_at(input.sizes(), dims == 0 ? 0 : dims - 1);
  return {1, split.outer, split.size};
}

Split whole(const Tensor& input) {
  return {1, 1, static_cast<size_t>(input.numel())};
}

bool check_order(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& out,
    const Split& split) {
  KERNEL_CHECK(
      ctx,
      same_dim_order(input, out),
      NotSupported,
      false,
      "input and out lie in different orders");
  return split.size == 1 || contiguous_or_fail(ctx, input);
}

bool check_scale_out(KernelRuntimeContext& ctx, const Tensor& scale, const Tensor& zero_point) {
  const ScalarType scale_dtype = scale.scalar_type();
  const ScalarType zero_point_dtype = zero_point.scalar_type();
  KERNEL_CHECK(
      ctx,
      (scale_dtype == ScalarType::Float || scale_dtype == ScalarType::Double) &&
          (zero_point_dtype == ScalarType::Int || zero_point_dtype == ScalarType::Long),
      InvalidType,
      false,
      "The scale is neither Float nor Double, or the zero point neither Int nor Long");
  return contiguous_or_fail(ctx, scale) && contiguous_or_fail(ctx, zero_point);
}

void write_parameters(
    const Tensor& scale,
    const Tensor& zero_point,
    size_t index,
    float scale_value,
    float zero_point_value) {
  if (scale.scalar_type() == ScalarType::Float) {
    scale.mutable_data_ptr<float>()[index] = scale_value;
  } else {
    scale.mutable_data_ptr<double>()[index] = static_cast<double>(scale_value);
  }
  // NaN becomes 0; int32's largest value is no float.
  const bool fits = zero_point_value >= -2147483648.0f && zero_point_value < 2147483648.0f;
  const int32_t whole_value = fits ? static_cast<int32_t>(zero_point_value)
      : zero_point_value > 0.0f    ? INT32_MAX
                                   : 0;
  if (zero_point.scalar_type() == ScalarType::Int) {
    zero_point.mutable_data_ptr<int32_t>()[index] = whole_value;
  } else {
    zero_point.mutable_data_ptr<int64_t>()[index] = whole_value;
  }
}

} // namespace torch::executor::native
