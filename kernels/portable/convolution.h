#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/dtypes.h"
#include "kernels/util/window.h"

namespace torch::executor::native {

/// A convolution over depth, height and width; axes that it does not have are of size 1. Channels
/// are per group. The axes' `out` is that of the result, also of a transposed one.
struct ConvolutionShape {
  int32_t batch;
  int32_t groups;
  int32_t in_channels;
  int32_t out_channels;
  bool transposed;
  Window axes[3];
};

/// Returns the index in the input of tap `tap` of output `out`.
inline int32_t position(const Window& axis, int32_t out, int32_t tap) {
  return out * axis.stride - axis.padding + tap * axis.dilation;
}

/// Returns the index in the input that reaches output `out` of a transposed convolution through tap
/// `tap`; -1 if there is none.
inline int32_t transposed_position(const Window& axis, int32_t out, int32_t tap) {
  const int32_t distance = out + axis.padding - tap * axis.dilation;
  return distance >= 0 && distance % axis.stride == 0 ? distance / axis.stride : -1;
}

/**
 * Convolution of NCDHW inputs with OIDHW weights into NCDHW outputs, all
 * contiguous; padding counts as zeros. `bias` has one value per output channel
 * and may be null.
 *
 * Computes blocks of four output channels by four neighbouring pixels: a weight
 * serves four pixels, an input four channels. The last blocks of a row and of
 * the channels overlap their predecessors rather than being smaller.
 */
void convolution(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape);

/// Does the same, transposed: weights are [in, out / groups, kernel...]. Outputs whose distances
/// are multiples of the stride use the same taps, and form a convolution each.
void transposed_convolution(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape);

/// Distances between neighbours along batch or output channels, channels, depth, height and width,
/// in elements.
struct ConvolutionStrides {
  int32_t in[5];
  int32_t weight[5];
  int32_t out[5];
};

/// The strides of contiguous tensors.
inline ConvolutionStrides contiguous_strides(const ConvolutionShape& shape) {
  const auto& [depth, height, width] = shape.axes;
  const int32_t in_volume = depth.in * height.in * width.in;
  const int32_t kernel = depth.kernel * height.kernel * width.kernel;
  const int32_t out_volume = depth.out * height.out * width.out;
  const int32_t weight_rows = shape.transposed ? shape.out_channels : shape.in_channels;
  return {
      {shape.groups * shape.in_channels * in_volume, in_volume, height.in * width.in, width.in, 1},
      {weight_rows * kernel, kernel, height.kernel * width.kernel, width.kernel, 1},
      {shape.groups * shape.out_channels * out_volume,
       out_volume,
       height.out * width.out,
       width.out,
       1}};
}

/// Both take any type and dim order, one product after another; integers wrap.
template <class T>
void strided_convolution(
    const T* in,
    const T* weight,
    const T* bias,
    T* out,
    const ConvolutionShape& shape,
    const ConvolutionStrides& strides) {
  using Sum = ArithmeticType<ComputeType<T>>;
  const auto& [depth, height, width] = shape.axes;
  const auto from = shape.transposed ? transposed_position : position;
  const int32_t kernel = depth.kernel * height.kernel * width.kernel;
  const int32_t weight_out = strides.weight[shape.transposed ? 1 : 0];
  const int32_t weight_in = strides.weight[shape.transposed ? 0 : 1];
  const int32_t weight_group =
      strides.weight[0] * (shape.transposed ? shape.in_channels : shape.out_channels);
  const int32_t out_pixels = depth.out * height.out * width.out;
  for (int32_t image = 0; image < shape.batch * shape.groups; ++image) {
    const int32_t group = image % shape.groups;
    const T* const source =
        in + image / shape.groups * strides.in[0] + group * shape.in_channels * strides.in[1];
    for (int32_t o = 0; o < shape.out_channels; ++o) {
      const int32_t channel = group * shape.out_channels + o;
      const T* const filter = weight + group * weight_group + o * weight_out;
      T* const plane = out + image / shape.groups * strides.out[0] + channel * strides.out[1];
      for (int32_t pixel = 0; pixel < out_pixels; ++pixel) {
        const int32_t z = pixel / width.out / height.out;
        const int32_t y = pixel / width.out % height.out;
        const int32_t x = pixel % width.out;
        Sum sum = bias == nullptr ? Sum(0) : static_cast<Sum>(bias[channel]);
        for (int32_t tap = 0; tap < kernel; ++tap) {
          const int32_t tap_z = tap / width.kernel / height.kernel;
          const int32_t tap_y = tap / width.kernel % height.kernel;
          const int32_t tap_x = tap % width.kernel;
          const int32_t slice = from(depth, z, tap_z);
          const int32_t row = from(height, y, tap_y);
          const int32_t column = from(width, x, tap_x);
          if (slice < 0 || slice >= depth.in || row < 0 || row >= height.in || column < 0 ||
              column >= width.in) {
            continue;
          }
          const T* value =
              source + slice * strides.in[2] + row * strides.in[3] + column * strides.in[4];
          const T* w = filter + tap_z * strides.weight[2] + tap_y * strides.weight[3] +
              tap_x * strides.weight[4];
          for (int32_t i = 0; i < shape.in_channels; ++i) {
            sum += static_cast<Sum>(*w) * static_cast<Sum>(*value);
            value += strides.in[1];
            w += weight_in;
          }
        }
        plane[z * strides.out[2] + y * strides.out[3] + x * strides.out[4]] = static_cast<T>(sum);
      }
    }
  }
}

/// Does the same, contiguous.
template <class T>
void convolution(
    const T* in,
    const T* weight,
    const T* bias,
    T* out,
    const ConvolutionShape& shape) {
  strided_convolution(in, weight, bias, out, shape, contiguous_strides(shape));
}

} // namespace torch::executor::native
