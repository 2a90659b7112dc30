#pragma once

#include "kernels/cortex_m/image.h"

namespace torch::executor::native::cortex_m {

/// The windows of a pooling.
struct PoolWindows {
  Window height;
  Window width;
};

/// Whether a window is inside the input at each output.
ET_INLINE bool is_inside(const Window& window) {
  return window.padding == 0 && (window.out - 1) * window.stride + window.kernel <= window.in;
}

/// max_pool() of any windows.
void max_pool_of_windows(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out);

/// max_pool() of 2x2 windows inside the input, whose channels are contiguous and at least four:
/// windows one by one would take four times the instructions.
void max_pool_of_squares(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out);

/// The largest value under each window, within a range. It is inlined, so that compiled images,
/// which know their windows, have one of the loops only.
ET_INLINE void max_pool(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out) {
#if !defined(__ARM_FEATURE_MVE)
  if (windows.height.kernel == 2 && windows.width.kernel == 2 && is_inside(windows.height) &&
      is_inside(windows.width) && in_shape.channel_step == 1 && out_shape.channel_step == 1 &&
      out_shape.channels >= 4) {
    max_pool_of_squares(windows, range, in_shape, in, out_shape, out);
    return;
  }
#endif
  max_pool_of_windows(windows, range, in_shape, in, out_shape, out);
}

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
