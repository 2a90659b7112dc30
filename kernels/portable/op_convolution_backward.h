#pragma once

#include <tuple>

#include "kernels/portable/convolution_backward.h"
#include "kernels/portable/op_convolution.h"

namespace torch::executor::native {

/// aten::convolution_backward.out, contiguous: the gradients of input, weight and bias, as far as
/// output_mask asks for them.
template <class S>
std::tuple<Tensor&, Tensor&, Tensor&> convolution_backward_out(
    KernelRuntimeContext& ctx,
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    std::optional<ArrayRef<int64_t>> /*bias_sizes*/,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    bool transposed,
    ArrayRef<int64_t> output_padding,
    int64_t groups,
    ArrayRef<bool> output_mask,
    Tensor& grad_input,
    Tensor& grad_weight,
    Tensor& grad_bias) {
  const std::tuple<Tensor&, Tensor&, Tensor&> result(grad_input, grad_weight, grad_bias);
  const std::optional<Tensor> no_bias;
  const ConvolutionArguments arguments = {
      input, weight, no_bias, stride, padding, dilation, transposed, output_padding, groups};
  ConvolutionShape shape;
  Shape out_sizes;
  KERNEL_CHECK(
      ctx,
      output_mask.size() == 3,
      InvalidArgument,
      result,
      "output_mask does not have three elements");
  if (!check_contiguous<S>(ctx, grad_output, input, weight, grad_input, grad_weight, grad_bias) ||
      !check_convolution(ctx, arguments, grad_output, shape, out_sizes) ||
      !compare_out(ctx, grad_output, out_sizes)) {
    return result;
  }
  const SizesType channels = out_sizes.sizes[1];
  const ArrayRef<SizesType> bias_sizes(&channels, 1);
  const Tensor* const outs[] = {&grad_input, &grad_weight, &grad_bias};
  const ArrayRef<SizesType> sizes[] = {input.sizes(), weight.sizes(), bias_sizes};
  for (size_t i = 0; i < 3; ++i) {
    if (output_mask[i] &&
        (!same_dtype_or_fail(ctx, input, *outs[i]) || !shape_out<S>(ctx, *outs[i], sizes[i]))) {
      return result;
    }
  }
  // The gradient of the input is the convolution the other way round.
  ConvolutionShape back = shape;
  back.transposed = !transposed;
  std::swap(back.in_channels, back.out_channels);
  int32_t volume = 1;
  for (Window& axis : back.axes) {
    volume *= axis.out;
    std::swap(axis.in, axis.out);
  }
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const gradient = grad_output.const_data_ptr<T>();
    const T* const from = input.const_data_ptr<T>();
    const T* const filter = weight.const_data_ptr<T>();
    if (output_mask[0]) {
      T* const to = grad_input.mutable_data_ptr<T>();
      if constexpr (std::is_same_v<T, float>) {
        if (transposed) {
          convolution(gradient, filter, nullptr, to, back);
        } else {
          transposed_convolution(gradient, filter, nullptr, to, back);
        }
      } else {
        convolution(gradient, filter, static_cast<const T*>(nullptr), to, back);
      }
    }
    if (output_mask[1]) {
      convolution_weight_gradient(
          transposed ? from : gradient,
          transposed ? gradient : from,
          grad_weight.mutable_data_ptr<T>(),
          shape.batch,
          shape.groups,
          transposed ? shape.in_channels : shape.out_channels,
          transposed ? shape.out_channels : shape.in_channels,
          transposed ? back.axes : shape.axes);
    }
    if (output_mask[2]) {
      channel_sums(gradient, grad_bias.mutable_data_ptr<T>(), shape.batch, channels, volume);
    }
  });
  return result;
}

} // namespace torch::executor::native
