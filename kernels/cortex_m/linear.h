#pragma once

#include "kernels/cortex_m/requantize.h"

namespace torch::executor::native::cortex_m {

/// The parameters of matrix products, beside their tensors.
struct MatmulParameters {
  int32_t left_offset;
  int32_t right_offset;
  int32_t output_offset;
  Factor factor;
  Range range;
};

/// Sets out[i][j] = requantized (start[j] + sum over k of (left[i][k] + left_offset) * (right[j][k]
/// + right_offset)); `start` may be null.
void matmul(
    const MatmulParameters& parameters,
    const int8_t* left,
    int32_t rows,
    const int8_t* right,
    int32_t columns,
    const int32_t* start,
    int32_t inner,
    int8_t* out);

} // namespace torch::executor::native::cortex_m
