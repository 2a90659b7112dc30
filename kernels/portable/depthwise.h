#pragma once

#include "kernels/util/window.h"

namespace torch::executor::native {

/// Returns whether depthwise() can compute the inner part of a plane: 3x3 kernels without dilation,
/// with a vertical stride of 1 or 2.
inline bool is_depthwise(const Window& height, const Window& width) {
  return height.kernel == 3 && width.kernel == 3 && height.dilation == 1 && width.dilation == 1 &&
      height.stride <= 2;
}

/**
 * Computes a float32 convolution of one input channel to one output channel, of rows by columns
 * outputs whose 3x3 kernels are inside the input. It goes down the columns: each row of three
 * inputs is loaded once, for all outputs that use it.
 */
void depthwise(
    int32_t stride,
    const float* in,
    const float* weight,
    float bias,
    float* out,
    int32_t rows,
    int32_t columns,
    int32_t in_row,
    int32_t in_column,
    int32_t out_row);

} // namespace torch::executor::native
