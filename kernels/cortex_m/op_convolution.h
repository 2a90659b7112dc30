#pragma once

#include <optional>

#include "kernels/cortex_m/convolution.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Where a weight has the output channels and the kernel's height and width.
enum class WeightLayout { OHWI, IHWO };

/// The arguments that all convolutions have, in the order of their schemas.
struct ConvolutionArguments {
  const Tensor& input;
  const Tensor& weight;
  WeightLayout layout;
  const std::optional<Tensor>& bias;
  ArrayRef<int64_t> stride;
  ArrayRef<int64_t> padding;
  /// Of a transposed convolution.
  ArrayRef<int64_t> output_padding;
  ArrayRef<int64_t> dilation;
  int64_t input_offset;
  int64_t output_offset;
  const Tensor& multipliers;
  const Tensor& shifts;
  int64_t activation_min;
  int64_t activation_max;

  int32_t out_channels() const {
    return weight.sizes()[layout == WeightLayout::OHWI ? 0 : 3];
  }
};

/**
 * Checks all arguments of a convolution but the shapes of its images, and takes its parameters
 * from them. Fails the context and returns false if they do not fit together.
 */
bool check_parameters(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const Tensor& out,
    ConvolutionParameters& parameters);

/// The shape of a convolution's result, from the windows that this sets.
bool convolution_sizes(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    ConvolutionParameters& parameters,
    Shape& sizes);

/// As convolution_sizes(), for a transposed convolution.
bool transpose_sizes(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    ConvolutionParameters& parameters,
    Shape& sizes);

/// What a convolution computes with.
struct PreparedConvolution {
  ConvolutionParameters parameters;
  Image in_shape;
  Image out_shape;
};

/// Checks the arguments of a convolution, gives `out` the shape that `set_sizes` finds, and
/// describes it all.
template <class S>
bool prepare_convolution(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    decltype(convolution_sizes)* set_sizes,
    const Tensor& out,
    PreparedConvolution& prepared) {
  Shape sizes;
  return check_parameters(ctx, arguments, out, prepared.parameters) &&
      set_sizes(ctx, arguments, prepared.parameters, sizes) && shape_out<S>(ctx, out, sizes) &&
      describe_image(ctx, arguments.input, prepared.in_shape) &&
      describe_image(ctx, out, prepared.out_shape);
}

/// cortex_m::quantized_conv2d.out, any dim order; weight [O, H, W, C / groups]; needs no scratch.
template <class S>
Tensor& quantized_conv2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    int64_t input_offset,
    int64_t output_offset,
    const Tensor& requantize_multipliers,
    const Tensor& requantize_shifts,
    int64_t activation_min,
    int64_t activation_max,
    const Tensor& /*scratch*/,
    Tensor& out) {
  const ConvolutionArguments arguments = {
      input,
      weight,
      WeightLayout::OHWI,
      bias,
      stride,
      padding,
      {},
      dilation,
      input_offset,
      output_offset,
      requantize_multipliers,
      requantize_shifts,
      activation_min,
      activation_max};
  PreparedConvolution prepared;
  if (prepare_convolution<S>(ctx, arguments, convolution_sizes, out, prepared)) {
    const Image& in_shape = prepared.in_shape;
    const Image& out_shape = prepared.out_shape;
    const int32_t group = weight.sizes()[3];
    const int32_t groups = group == 0 ? 0 : in_shape.channels / group;
    KERNEL_CHECK(
        ctx,
        groups > 0 && in_shape.channels == groups * group && out_shape.channels % groups == 0,
        InvalidArgument,
        out,
        "weight is not [out, height, width, in / groups]");
    convolution(
        prepared.parameters,
        in_shape,
        input.const_data_ptr<int8_t>(),
        groups,
        weight.const_data_ptr<int8_t>(),
        out_shape,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// cortex_m::quantized_depthwise_conv2d.out, any dim order; weight [1, H, W, O]; needs no scratch.
template <class S>
Tensor& quantized_depthwise_conv2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    int64_t depth_multiplier,
    int64_t input_offset,
    int64_t output_offset,
    const Tensor& requantize_multipliers,
    const Tensor& requantize_shifts,
    int64_t activation_min,
    int64_t activation_max,
    const Tensor& /*scratch*/,
    Tensor& out) {
  const ConvolutionArguments arguments = {
      input,
      weight,
      WeightLayout::IHWO,
      bias,
      stride,
      padding,
      {},
      dilation,
      input_offset,
      output_offset,
      requantize_multipliers,
      requantize_shifts,
      activation_min,
      activation_max};
  PreparedConvolution prepared;
  if (prepare_convolution<S>(ctx, arguments, convolution_sizes, out, prepared)) {
    const Image& in_shape = prepared.in_shape;
    const Image& out_shape = prepared.out_shape;
    KERNEL_CHECK(
        ctx,
        in_shape.channels > 0 && depth_multiplier == out_shape.channels / in_shape.channels &&
            out_shape.channels % in_shape.channels == 0,
        InvalidArgument,
        out,
        "weight is not [1, height, width, in * depth_multiplier]");
    depthwise_convolution(
        prepared.parameters,
        in_shape,
        input.const_data_ptr<int8_t>(),
        weight.const_data_ptr<int8_t>(),
        out_shape,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// cortex_m::quantized_transpose_conv2d.out, any dim order; weight [O, H, W, C]; needs no scratch.
template <class S>
Tensor& quantized_transpose_conv2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> output_padding,
    ArrayRef<int64_t> dilation,
    int64_t input_offset,
    int64_t output_offset,
    const Tensor& requantize_multipliers,
    const Tensor& requantize_shifts,
    int64_t activation_min,
    int64_t activation_max,
    const Tensor& /*scratch*/,
    const Tensor& /*output_scratch*/,
    Tensor& out) {
  const ConvolutionArguments arguments = {
      input,
      weight,
      WeightLayout::OHWI,
      bias,
      stride,
      padding,
      output_padding,
      dilation,
      input_offset,
      output_offset,
      requantize_multipliers,
      requantize_shifts,
      activation_min,
      activation_max};
  PreparedConvolution prepared;
  if (prepare_convolution<S>(ctx, arguments, transpose_sizes, out, prepared)) {
    const Image& in_shape = prepared.in_shape;
    const Image& out_shape = prepared.out_shape;
    KERNEL_CHECK(
        ctx,
        in_shape.channels == weight.sizes()[3],
        InvalidArgument,
        out,
        "weight is not [out, height, width, in]");
    transpose_convolution(
        prepared.parameters,
        in_shape,
        input.const_data_ptr<int8_t>(),
        weight.const_data_ptr<int8_t>(),
        out_shape,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
