#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/dtypes.h"
#include "kernels/util/window.h"

namespace torch {
namespace executor {
namespace native {

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

/// Where tap `tap` of output `out` falls in the input.
inline int32_t position(const Window& axis, int32_t out, int32_t tap) {
  return out * axis.stride - axis.padding + tap * axis.dilation;
}

/// Where a transposed convolution's output `out` gets from through tap `tap`; -1 if from nowhere.
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

/// As above, transposed: weights are [in, out / groups, kernel...]. Outputs whose distance is the
/// stride use the same taps, and are convolutions each.
void transposed_convolution(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape);

/// Both for other types; integers wrap.
template <class T>
void convolution(
    const T* in,
    const T* weight,
    const T* bias,
    T* out,
    const ConvolutionShape& shape) {
  using Sum = ArithmeticType<ComputeType<T>>;
  const auto& [depth, height, width] = shape.axes;
  const auto from = shape.transposed ? transposed_position : position;
  const int32_t in_volume = depth.in * height.in * width.in;
  const int32_t kernel = depth.kernel * height.kernel * width.kernel;
  const int32_t weight_out = shape.transposed ? kernel : shape.in_channels * kernel;
  const int32_t weight_in = shape.transposed ? shape.out_channels * kernel : kernel;
  for (int32_t image = 0; image < shape.batch * shape.groups; ++image) {
    const int32_t group = image % shape.groups;
    for (int32_t o = 0; o < shape.out_channels; ++o) {
      const T* const filter =
          weight + group * shape.in_channels * shape.out_channels * kernel + o * weight_out;
      const Sum start =
          bias == nullptr ? Sum(0) : static_cast<Sum>(bias[group * shape.out_channels + o]);
      for (int32_t z = 0; z < depth.out; ++z) {
        for (int32_t y = 0; y < height.out; ++y) {
          for (int32_t x = 0; x < width.out; ++x) {
            Sum sum = start;
            for (int32_t tap = 0; tap < kernel; ++tap) {
              const int32_t slice = from(depth, z, tap / width.kernel / height.kernel);
              const int32_t row = from(height, y, tap / width.kernel % height.kernel);
              const int32_t column = from(width, x, tap % width.kernel);
              if (slice < 0 || slice >= depth.in || row < 0 || row >= height.in || column < 0 ||
                  column >= width.in) {
                continue;
              }
              const T* value = in + (slice * height.in + row) * width.in + column;
              const T* w = filter + tap;
              for (int32_t i = 0; i < shape.in_channels; ++i) {
                sum += static_cast<Sum>(*w) * static_cast<Sum>(*value);
                value += in_volume;
                w += weight_in;
              }
            }
            *out++ = static_cast<T>(sum);
          }
        }
      }
    }
    in += shape.in_channels * in_volume;
  }
}

} // namespace native
} // namespace executor
} // namespace torch
