#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/arithmetic.h"

namespace torch {
namespace executor {
namespace native {

/// A 2-d convolution; a 1-d one has height 1. Channels are per group.
struct ConvolutionShape {
  int32_t batch;
  int32_t groups;
  int32_t in_channels;
  int32_t out_channels;
  int32_t in_height;
  int32_t in_width;
  int32_t out_height;
  int32_t out_width;
  int32_t kernel_height;
  int32_t kernel_width;
  int32_t stride_height;
  int32_t stride_width;
  int32_t padding_height;
  int32_t padding_width;
  int32_t dilation_height;
  int32_t dilation_width;
};

/**
 * Convolution of NCHW inputs with OIHW weights into NCHW outputs, all
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

/// As above for integers, which wrap.
template <class T>
void convolution(
    const T* in,
    const T* weight,
    const T* bias,
    T* out,
    const ConvolutionShape& shape) {
  using Sum = ArithmeticType<T>;
  const int32_t kernel = shape.kernel_height * shape.kernel_width;
  const int32_t in_plane = shape.in_height * shape.in_width;
  for (int32_t image = 0; image < shape.batch * shape.groups; ++image) {
    const int32_t first = image % shape.groups * shape.out_channels;
    for (int32_t o = first; o < first + shape.out_channels; ++o) {
      for (int32_t y = 0; y < shape.out_height; ++y) {
        for (int32_t x = 0; x < shape.out_width; ++x) {
          Sum sum = bias == nullptr ? Sum(0) : static_cast<Sum>(bias[o]);
          const T* w = weight + o * shape.in_channels * kernel;
          for (int32_t i = 0; i < shape.in_channels * kernel; ++i, ++w) {
            const int32_t tap = i % kernel;
            const int32_t row = y * shape.stride_height - shape.padding_height +
                tap / shape.kernel_width * shape.dilation_height;
            const int32_t column = x * shape.stride_width - shape.padding_width +
                tap % shape.kernel_width * shape.dilation_width;
            if (row >= 0 && row < shape.in_height && column >= 0 && column < shape.in_width) {
              sum += static_cast<Sum>(*w) *
                  static_cast<Sum>(in[i / kernel * in_plane + row * shape.in_width + column]);
            }
          }
          *out++ = static_cast<T>(sum);
        }
      }
    }
    in += shape.in_channels * in_plane;
  }
}

/**
 * out[m][n] = sum over k of a[m][k] * b[k][n], contiguous row-major arrays: a
 * convolution with 1x1 kernels, where a is the weights and the columns of b are
 * pixels.
 */
void matmul(const float* a, const float* b, float* out, size_t rows, size_t inner, size_t columns);

/// As above for integers, which wrap.
template <class T>
void matmul(const T* a, const T* b, T* out, size_t rows, size_t inner, size_t columns) {
  using Sum = ArithmeticType<T>;
  for (size_t row = 0; row < rows; ++row, a += inner) {
    for (size_t column = 0; column < columns; ++column) {
      Sum sum = 0;
      for (size_t k = 0; k < inner; ++k) {
        sum += static_cast<Sum>(a[k]) * static_cast<Sum>(b[k * columns + column]);
      }
      *out++ = static_cast<T>(sum);
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
