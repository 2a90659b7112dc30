#pragma once

#include "kernels/portable/convolution.h"

namespace torch::executor::native {

/**
 * Computes the gradient of a convolution's weights. A weight connects an element of the side that
 * the kernel moves over with one of the side that it steps on: the input of a convolution with its
 * result, or the result of a transposed one with its input.
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

} // namespace torch::executor::native
