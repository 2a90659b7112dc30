#pragma once

#include <tuple>

#include "kernels/portable/op_convolution.h"

namespace torch {
namespace executor {
namespace native {

/**
 * Gradient of a convolution's weights. A weight connects an element of the side that the kernel
 * steps over with one of the side that it steps on: the result of a convolution with its input, or
 * the input of a transposed one with its result.
 *
 * @param[in] steps [batch, groups * step_channels, steps...], @param[in] field [batch, groups *
 *     field_channels, sizes...], out [groups * step_channels, field_channels, kernel...].
 * @param[in] axes Of the convolution from field to steps.
 */
template <class T>
void convolution_weight_gradient(
    const T* steps,
    const T* field,
    T* out,
    int32_t batch,
    int32_t groups,
    int32_t step_channels,
    int32_t field_channels,
    const Window (&axes)[3]) {
  using Sum = ComputeType<T>;
  const auto& [depth, height, width] = axes;
  const int32_t step_volume = depth.out * height.out * width.out;
  const int32_t field_volume = depth.in * height.in * width.in;
  const int32_t kernel = depth.kernel * height.kernel * width.kernel;
  for (int32_t channel = 0; channel < groups * step_channels; ++channel) {
    const int32_t group = channel / step_channels;
    for (int32_t i = 0; i < field_channels * kernel; ++i) {
      const int32_t field_channel = group * field_channels + i / kernel;
      const int32_t tap = i % kernel;
      Sum sum = 0;
      for (int32_t image = 0; image < batch; ++image) {
        const T* step = steps + (image * groups * step_channels + channel) * step_volume;
        const T* const from =
            field + (image * groups * field_channels + field_channel) * field_volume;
        for (int32_t z = 0; z < depth.out; ++z) {
          const int32_t slice = position(depth, z, tap / width.kernel / height.kernel);
          for (int32_t y = 0; y < height.out; ++y) {
            const int32_t row = position(height, y, tap / width.kernel % height.kernel);
            for (int32_t x = 0; x < width.out; ++x, ++step) {
              const int32_t column = position(width, x, tap % width.kernel);
              if (slice >= 0 && slice < depth.in && row >= 0 && row < height.in && column >= 0 &&
                  column < width.in) {
                sum += static_cast<Sum>(*step) *
                    static_cast<Sum>(from[(slice * height.in + row) * width.in + column]);
              }
            }
          }
        }
      }
      *out++ = static_cast<T>(sum);
    }
  }
}

/// Sum of each channel of [batch, channels, volume].
template <class T>
void channel_sums(const T* in, T* out, int32_t batch, int32_t channels, int32_t volume) {
  using Sum = ComputeType<T>;
  for (int32_t channel = 0; channel < channels; ++channel) {
    Sum sum = 0;
    for (int32_t image = 0; image < batch; ++image) {
      const T* const from = in + (image * channels + channel) * volume;
      for (int32_t i = 0; i < volume; ++i) {
        sum += static_cast<Sum>(from[i]);
      }
    }
    out[channel] = static_cast<T>(sum);
  }
}

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
  ConvolutionShape shape;
  Shape out_sizes;
  KERNEL_CHECK(
      ctx,
      output_mask.size() == 3,
      InvalidArgument,
      result,
      "output_mask does not have three elements");
  if (!check_contiguous<S>(ctx, grad_output, input, weight, grad_input, grad_weight, grad_bias) ||
      !check_convolution(
          ctx,
          input,
          weight,
          std::nullopt,
          stride,
          padding,
          dilation,
          transposed,
          output_padding,
          groups,
          grad_output,
          shape,
          out_sizes) ||
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

} // namespace native
} // namespace executor
} // namespace torch
