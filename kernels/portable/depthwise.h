#pragma once

#include "kernels/util/window.h"

namespace torch {
namespace executor {
namespace native {

/// Whether depthwise() can compute what lies within a plane: 3x3 kernels, undilated, of stride 1 or
/// 2 down the columns.
inline bool is_depthwise(const Window& height, const Window& width) {
  return height.kernel == 3 && width.kernel == 3 && height.dilation == 1 && width.dilation == 1 &&
      height.stride <= 2;
}

/**
 * Convolution of one input channel to one output channel, float32, of rows by columns outputs whose
 * 3x3 kernels lie within the input. Goes down the columns: each row of three inputs is loaded once,
 * for all the outputs that it is in.
 *
 * @param[in] stride 1 or 2: rows of the input between two rows of outputs.
 * @param[in] in_row, in_column Distances in the input: of its rows, and of the inputs of
 *     neighbouring outputs of a row.
 * @param[in] out_row Distance of two rows in the output.
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

} // namespace native
} // namespace executor
} // namespace torch
