#pragma once

#include <optional>

#include "kernels/cortex_m/convolution.h"
#include "kernels/cortex_m/nhwc.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// The dims of a weight that have the output channels and the kernel's height and width.
enum class WeightLayout { OHWI, IHWO };

/// The arguments that all convolutions have, in the order of their schemas.
struct ConvolutionArguments {
  const Tensor& input;
  const Tensor& weight;
  WeightLayout layout;
  const std::optional<Tensor>& bias;
  ArrayRef<int64_t> stride;
  ArrayRef<int64_t> padding;
  /// Those of a transposed convolution.
  ArrayRef<int64_t> output_padding;
  ArrayRef<int64_t> dilation;
  int64_t input_offset;
  int64_t output_offset;
  const Tensor& multipliers;
  const Tensor& shifts;
  int64_t activation_min;
  int64_t activation_max;
  /// Those of a depthwise convolution.
  int64_t depth_multiplier = 1;

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

/// Does the same as convolution_sizes(), for a transposed convolution.
bool transpose_sizes(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    ConvolutionParameters& parameters,
    Shape& sizes);

/// The parameters of a convolution.
struct PreparedConvolution {
  ConvolutionParameters parameters;
  Image in_shape;
  Image out_shape;
};

/// Checks the requirements of a kind of convolution on its channels, and computes it.
using RunConvolution = void(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const PreparedConvolution& prepared,
    int8_t* out);
RunConvolution run_convolution, run_depthwise, run_transpose;

/// Checks the arguments of a convolution, gives `out` its shape, and computes it.
template <class S>
Tensor& convolution_out(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    decltype(convolution_sizes)* set_sizes,
    RunConvolution* run,
    Tensor& out) {
  PreparedConvolution prepared;
  Shape sizes;
  if (check_parameters(ctx, arguments, out, prepared.parameters) &&
      set_sizes(ctx, arguments, prepared.parameters, sizes) && shape_out<S>(ctx, out, sizes) &&
      describe_image(ctx, arguments.input, prepared.in_shape) &&
      describe_image(ctx, out, prepared.out_shape) && out.numel() > 0) {
    run(ctx, arguments, prepared, out.mutable_data_ptr<int8_t>());
  }
  return out;
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
  return convolution_out<S>(
      ctx,
      {input,
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
       activation_max},
      convolution_sizes,
      run_convolution,
      out);
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
  return convolution_out<S>(
      ctx,
      {input,
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
       activation_max,
       depth_multiplier},
      convolution_sizes,
      run_depthwise,
      out);
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
  return convolution_out<S>(
      ctx,
      {input,
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
       activation_max},
      transpose_sizes,
      run_transpose,
      out);
}

template <class S>
constexpr auto& quantized_conv2d_nhwc_out = nhwc<&quantized_conv2d_out<S>>;
template <class S>
constexpr auto& quantized_depthwise_conv2d_nhwc_out = nhwc<&quantized_depthwise_conv2d_out<S>>;
template <class S>
constexpr auto& quantized_transpose_conv2d_nhwc_out = nhwc<&quantized_transpose_conv2d_out<S>>;

} // namespace torch::executor::native::cortex_m
