#pragma once

#include "kernels/boxed.h"
#include "kernels/cortex_m/nhwc.h"
#include "kernels/cortex_m/pool.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// Performs the common checks of poolings, and computes the windows and the output's shape.
bool check_pool(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const ArrayRef<int64_t>& kernel_size,
    const ArrayRef<int64_t>& stride,
    const ArrayRef<int64_t>& padding,
    bool ceil_mode,
    const Tensor& out,
    PoolWindows& windows,
    Shape& sizes);

/// Average pooling of the argument list that ExecuTorch 1.5 writes; padding doesn't count.
template <class S>
Tensor& quantized_avg_pool2d(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    bool ceil_mode,
    int64_t zero_point,
    int64_t multiplier,
    int64_t shift,
    const Tensor& /*scratch*/,
    Tensor& out) {
  PoolWindows windows;
  Shape sizes;
  Image in_shape;
  Image out_shape;
  int32_t offset = 0;
  Factor factor;
  if (!check_offset(ctx, zero_point, offset) || !check_factor(ctx, multiplier, shift, factor)) {
    return out;
  }
  KERNEL_CHECK(
      ctx,
      factor.multiplier > 0,
      InvalidArgument,
      out,
      "The scale of an average pooling is not positive");
  if (check_pool(ctx, input, kernel_size, stride, padding, ceil_mode, out, windows, sizes) &&
      shape_out<S>(ctx, out, sizes) && describe_image(ctx, input, in_shape) &&
      describe_image(ctx, out, out_shape)) {
    avg_pool(
        windows,
        offset,
        scale_of(factor),
        in_shape,
        input.const_data_ptr<int8_t>(),
        out_shape,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// Average pooling of the argument list that earlier releases write.
template <class S>
Tensor& quantized_avg_pool2d_before_1_5(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    int64_t zero_point,
    int64_t multiplier,
    int64_t shift,
    const Tensor& scratch,
    Tensor& out) {
  return quantized_avg_pool2d<S>(
      ctx, input, kernel_size, stride, padding, false, zero_point, multiplier, shift, scratch, out);
}

/// cortex_m::quantized_avg_pool2d.out, any dim order; needs no scratch. The fifth argument tells
/// the argument lists of the releases apart: ceil_mode, or the zero point.
template <class S>
void quantized_avg_pool2d_out(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  constexpr size_t kCeilMode = 4;
  if (stack.size() > kCeilMode && stack[kCeilMode]->isBool()) {
    boxed<&quantized_avg_pool2d<S>, 0, S::has(Variant::DynamicShape)>(ctx, stack);
  } else {
    boxed<&quantized_avg_pool2d_before_1_5<S>, 0, S::has(Variant::DynamicShape)>(ctx, stack);
  }
}

/// cortex_m::quantized_max_pool2d.out, any dim order.
template <class S>
Tensor& quantized_max_pool2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    bool ceil_mode,
    int64_t input_zero_point,
    int64_t output_zero_point,
    int64_t activation_min,
    int64_t activation_max,
    Tensor& out) {
  for (const int64_t value : dilation) {
    KERNEL_CHECK(ctx, value == 1, NotSupported, out, "Max pooling does not support dilation");
  }
  KERNEL_CHECK(ctx, !ceil_mode, NotSupported, out, "Max pooling does not support ceil_mode");
  KERNEL_CHECK(
      ctx,
      input_zero_point == output_zero_point,
      InvalidArgument,
      out,
      "Max pooling takes one zero point for input and output");
  PoolWindows windows;
  Shape sizes;
  Image in_shape;
  Image out_shape;
  Range range;
  if (check_range(ctx, activation_min, activation_max, range) &&
      check_pool(ctx, input, kernel_size, stride, padding, false, out, windows, sizes) &&
      shape_out<S>(ctx, out, sizes) && describe_image(ctx, input, in_shape) &&
      describe_image(ctx, out, out_shape)) {
    max_pool(
        windows,
        range,
        in_shape,
        input.const_data_ptr<int8_t>(),
        out_shape,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

template <class S>
constexpr auto& quantized_avg_pool2d_nhwc_out = nhwc<&quantized_avg_pool2d<S>>;
template <class S>
constexpr auto& quantized_max_pool2d_nhwc_out = nhwc<&quantized_max_pool2d_out<S>>;

} // namespace torch::executor::native::cortex_m
