#pragma once

#include "kernels/cortex_m/image.h"

namespace torch::executor::native::cortex_m {

/// The windows of a pooling.
struct PoolWindows {
  Window height;
  Window width;
};

/// The largest value under each window, within a range.
void max_pool(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out);

/// Computes the mean of the values under each window, rounded as in single-precision arithmetic on
/// the real numbers (value - zero_point) * scale.
void avg_pool(
    const PoolWindows& windows,
    int32_t zero_point,
    float scale,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out);

} // namespace torch::executor::native::cortex_m
