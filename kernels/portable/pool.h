#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/util/window.h"

namespace torch {
namespace executor {
namespace native {

/// The part of a window that lies on the input.
struct WindowPart {
  int32_t begin;
  int32_t end;
};

/// The part of the window of output `position`; its begin is the first element
/// at or right of 0 that the dilated window falls on.
inline WindowPart window_part(const Window& window, int32_t position) {
  int32_t begin = position * window.stride - window.padding;
  int32_t end = begin + (window.kernel - 1) * window.dilation + 1;
  if (begin < 0) {
    begin += (window.dilation - 1 - begin) / window.dilation * window.dilation;
  }
  if (end > window.in) {
    end = window.in;
  }
  return {begin, end};
}

/**
 * Maximum over windows of `planes` contiguous [height, width] planes; NaN wins.
 *
 * @param[out] indices Position of each maximum in its plane, the first among
 *     equals; null if nothing asks for it.
 */
template <class T>
void max_pool(
    const T* in,
    T* out,
    int64_t* indices,
    int32_t planes,
    const Window& height,
    const Window& width) {
  for (; planes > 0; --planes, in += height.in * width.in) {
    for (int32_t y = 0; y < height.out; ++y) {
      const WindowPart rows = window_part(height, y);
      for (int32_t x = 0; x < width.out; ++x) {
        const WindowPart columns = window_part(width, x);
        int32_t best = rows.begin * width.in + columns.begin;
        // A dilated window may step over the whole input.
        T max = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                            : std::numeric_limits<T>::lowest();
        for (int32_t row = rows.begin; row < rows.end; row += height.dilation) {
          const T* value = in + row * width.in + columns.begin;
          const T* const last = in + row * width.in + columns.end;
          for (; value < last; value += width.dilation) {
            bool greater = *value > max;
            if constexpr (std::is_floating_point_v<T>) {
              greater = greater || *value != *value;
            }
            if (greater) {
              max = *value;
              best = static_cast<int32_t>(value - in);
            }
          }
        }
        *out++ = max;
        if (indices != nullptr) {
          *indices++ = best;
        }
      }
    }
  }
}

/**
 * Mean over windows of `planes` contiguous [height, width] planes.
 *
 * @param[in] count_padding Whether padding counts as elements; what ceil_mode
 *     adds beyond it never does.
 * @param[in] divisor What sums are divided by instead of the count; 0: the count.
 */
void avg_pool(
    const float* in,
    float* out,
    int32_t planes,
    const Window& height,
    const Window& width,
    bool count_padding,
    int32_t divisor);

} // namespace native
} // namespace executor
} // namespace torch
