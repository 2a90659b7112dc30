#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/dtypes.h"

namespace torch::executor::native {

/**
 * Linear layer: out[m][n] = bias[n] + sum over k of in[m][k] * weight[n][k].
 * Contiguous row-major arrays; `bias` may be null.
 */
void linear(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    size_t rows,
    size_t in_features,
    size_t out_features);

/// Does the same for other types; integers wrap.
template <class T>
void linear(
    const T* in,
    const T* weight,
    const T* bias,
    T* out,
    size_t rows,
    size_t in_features,
    size_t out_features) {
  using Sum = ArithmeticType<ComputeType<T>>;
  for (; rows > 0; --rows, in += in_features) {
    const T* w = weight;
    for (size_t n = 0; n < out_features; ++n) {
      Sum sum = bias == nullptr ? Sum(0) : static_cast<Sum>(bias[n]);
      for (size_t k = 0; k < in_features; ++k) {
        sum += static_cast<Sum>(in[k]) * static_cast<Sum>(*w++);
      }
      *out++ = static_cast<T>(sum);
    }
  }
}

/**
 * Matrix product: out[m][n] = sum over k of a[m][k] * b[k][n]. Contiguous
 * row-major arrays.
 */
void matmul(const float* a, const float* b, float* out, size_t rows, size_t inner, size_t columns);

/// Does the same for other types; integers wrap.
template <class T>
void matmul(const T* a, const T* b, T* out, size_t rows, size_t inner, size_t columns) {
  using Sum = ArithmeticType<ComputeType<T>>;
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

/// Returns the dot product of a row and a column, whose elements are `stride` apart.
template <class T>
ComputeType<T> dot_product(const T* row, const T* column, size_t count, size_t stride) {
  using Number = ComputeType<T>;
  Number sum = 0;
  for (; count > 0; --count, column += stride) {
    sum += static_cast<Number>(*row++) * static_cast<Number>(*column);
  }
  return sum;
}

} // namespace torch::executor::native
