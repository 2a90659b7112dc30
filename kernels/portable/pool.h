#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/util/dtypes.h"
#include "kernels/util/window.h"

namespace torch::executor::native {

/// The part of a window that overlaps the input.
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

/// Returns whether windows are 2x2 and adjacent: the fast case of both poolings.
inline bool is_2x2(const Window& height, const Window& width) {
  const auto is_pair = [](const Window& window) {
    return window.kernel == 2 && window.stride == 2 && window.padding == 0 &&
        window.dilation == 1 && 2 * window.out <= window.in;
  };
  return is_pair(height) && is_pair(width);
}

/// Planes [height, width] that are contiguous in memory.
struct ContiguousPlanes {
  /// Returns the address of plane `index`: at `next`, the end of the one before it.
  template <class T>
  static T* begin(T* next, T* /*first*/, int32_t /*index*/) {
    return next;
  }
  /// Distance of neighbouring elements of a row.
  static constexpr int32_t step() {
    return 1;
  }
  /// Distance of neighbouring elements of a window in its row.
  static int32_t tap_step(const Window& width) {
    return width.dilation;
  }
};

/// The planes of images in another order, such as channels-last. Rows follow one another.
struct StridedPlanes {
  /// Planes of an image.
  int32_t channels;
  int32_t image_step;
  int32_t plane_step;
  int32_t pixel_step;

  template <class T>
  T* begin(T* /*next*/, T* first, int32_t index) const {
    return first + index / channels * image_step + index % channels * plane_step;
  }
  int32_t step() const {
    return pixel_step;
  }
  int32_t tap_step(const Window& width) const {
    return width.inner_dilation() * pixel_step;
  }
};

/// max_pool() of contiguous float32 where is_2x2(), without indices.
void max_pool_2x2(
    const float* in,
    float* out,
    int32_t planes,
    const Window& height,
    const Window& width);

/**
 * Computes the maximum over windows of `planes` planes [height, width]; NaN wins.
 */
template <class T, class Planes>
void max_pool(
    const T* in,
    T* out,
    int64_t* indices,
    int32_t planes,
    Planes from,
    Planes to,
    const Window& height,
    const Window& width) {
  using Number = ComputeType<T>;
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Planes, ContiguousPlanes>) {
    if (indices == nullptr && is_2x2(height, width)) {
      max_pool_2x2(in, out, planes, height, width);
      return;
    }
  }
  const int32_t step = from.step();
  const T* source = in;
  T* target = out;
  int64_t* place = indices;
  for (int32_t plane = 0; plane < planes; ++plane, source += height.in * width.in) {
    source = from.begin(source, in, plane);
    target = to.begin(target, out, plane);
    if (indices != nullptr) {
      place = to.begin(place, indices, plane);
    }
    for (int32_t y = 0; y < height.out; ++y) {
      const WindowPart rows = window_part(height, y);
      for (int32_t x = 0; x < width.out; ++x) {
        const WindowPart columns = window_part(width, x);
        const T* best = source + (rows.begin * width.in + columns.begin) * step;
        // A dilated window may step over the whole input.
        Number max = std::is_floating_point_v<Number> ? -std::numeric_limits<Number>::infinity()
                                                      : std::numeric_limits<Number>::lowest();
        for (int32_t row = rows.begin; row < rows.end; row += height.dilation) {
          const T* element = source + (row * width.in + columns.begin) * step;
          const T* const last = source + (row * width.in + columns.end) * step;
          for (; element < last; element += from.tap_step(width)) {
            const Number value = static_cast<Number>(*element);
            bool greater = value > max;
            if constexpr (std::is_floating_point_v<Number>) {
              greater = greater || value != value;
            }
            if (greater) {
              max = value;
              best = element;
            }
          }
        }
        *target = static_cast<T>(max);
        target += to.step();
        if (indices != nullptr) {
          *place = static_cast<int32_t>(best - source) / step;
          place += to.step();
        }
      }
    }
  }
}

/// Returns the number of elements of a window with its padding, without those beyond that.
inline int32_t padded_size(const Window& window, int32_t position) {
  const int32_t begin = position * window.stride - window.padding;
  const int32_t end = begin + window.kernel;
  const int32_t limit = window.in + window.padding;
  return (end < limit ? end : limit) - begin;
}

/// Returns the divisor of avg_pool() for the sum of a window: `divisor`, or with 0 the window's
/// elements.
inline int32_t window_count(
    const Window& height,
    const Window& width,
    int32_t y,
    int32_t x,
    bool count_padding,
    int32_t divisor) {
  if (divisor != 0) {
    return divisor;
  }
  if (count_padding) {
    return padded_size(height, y) * padded_size(width, x);
  }
  const WindowPart rows = window_part(height, y);
  const WindowPart columns = window_part(width, x);
  return (rows.end - rows.begin) * (columns.end - columns.begin);
}

/// A sum divided by a count; the quotient of integers wraps, as the lowest one has no negative.
template <class T>
inline T quotient(T sum, int32_t count) {
  if constexpr (std::is_integral_v<T>) {
    if (count == -1) {
      using Wrapping = ArithmeticType<T>;
      return static_cast<T>(Wrapping(0) - static_cast<Wrapping>(sum));
    }
  }
  return sum / static_cast<T>(count);
}

/// avg_pool() of a plane of float32 where is_2x2(), by the distances of neighbouring pixels.
void avg_pool_2x2(
    const float* in,
    int32_t in_step,
    float* out,
    int32_t out_step,
    const Window& height,
    const Window& width);

/// avg_pool() of contiguous float32.
void avg_pool_contiguous(
    const float* in,
    float* out,
    int32_t planes,
    const Window& height,
    const Window& width,
    bool count_padding,
    int32_t divisor);

/**
 * Mean over windows of `planes` planes [height, width]; the means of integers are rounded towards
 * 0.
 *
 * @param[in] from, to Where the planes of `in` and `out` lie.
 * @param[in] count_padding Whether padding counts as elements; what ceil_mode
 *     adds beyond it never does.
 * @param[in] divisor What sums are divided by instead of the count; 0: the count.
 */
template <class T, class Planes>
void avg_pool(
    const T* in,
    T* out,
    int32_t planes,
    Planes from,
    Planes to,
    const Window& height,
    const Window& width,
    bool count_padding,
    int32_t divisor) {
  using Number = ComputeType<T>;
  using Sum = ArithmeticType<Number>;
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Planes, ContiguousPlanes>) {
    avg_pool_contiguous(in, out, planes, height, width, count_padding, divisor);
    return;
  }
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Planes, StridedPlanes>) {
    if (is_2x2(height, width) && (divisor == 0 || divisor == 4)) {
      for (int32_t plane = 0; plane < planes; ++plane) {
        const float* source = from.begin(in, in, plane);
        float* target = to.begin(out, out, plane);
        avg_pool_2x2(source, from.step(), target, to.step(), height, width);
      }
      return;
    }
  }
  const T* source = in;
  T* target = out;
  for (int32_t plane = 0; plane < planes; ++plane, source += height.in * width.in) {
    source = from.begin(source, in, plane);
    target = to.begin(target, out, plane);
    for (int32_t y = 0; y < height.out; ++y) {
      const WindowPart rows = window_part(height, y);
      for (int32_t x = 0; x < width.out; ++x) {
        const WindowPart columns = window_part(width, x);
        Sum sum = 0;
        for (int32_t row = rows.begin; row < rows.end; ++row) {
          for (int32_t column = columns.begin; column < columns.end; ++column) {
            sum += static_cast<Sum>(
                static_cast<Number>(source[(row * width.in + column) * from.step()]));
          }
        }
        const int32_t count = window_count(height, width, y, x, count_padding, divisor);
        *target = static_cast<T>(quotient(static_cast<Number>(sum), count));
        target += to.step();
      }
    }
  }
}

/// Mean over windows that divide planes [in_height, in_width] evenly: output i covers the inputs
/// from floor(i in / out) to ceil((i + 1) in / out).
template <class T, class Planes>
void adaptive_avg_pool(
    const T* in,
    T* out,
    int32_t planes,
    Planes from,
    Planes to,
    int32_t in_height,
    int32_t in_width,
    int32_t out_height,
    int32_t out_width) {
  using Number = ComputeType<T>;
  const auto part = [](int32_t in_size, int32_t out_size, int32_t position) -> WindowPart {
    return {
        static_cast<int32_t>(int64_t{position} * in_size / out_size),
        static_cast<int32_t>((int64_t{position + 1} * in_size + out_size - 1) / out_size)};
  };
  const T* source = in;
  T* target = out;
  for (int32_t plane = 0; plane < planes; ++plane, source += in_height * in_width) {
    source = from.begin(source, in, plane);
    target = to.begin(target, out, plane);
    for (int32_t y = 0; y < out_height; ++y) {
      const WindowPart rows = part(in_height, out_height, y);
      for (int32_t x = 0; x < out_width; ++x) {
        const WindowPart columns = part(in_width, out_width, x);
        Number sum = 0;
        for (int32_t row = rows.begin; row < rows.end; ++row) {
          for (int32_t column = columns.begin; column < columns.end; ++column) {
            sum += static_cast<Number>(source[(row * in_width + column) * from.step()]);
          }
        }
        const int32_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
        *target = static_cast<T>(sum / static_cast<Number>(count));
        target += to.step();
      }
    }
  }
}

/**
 * Adds to each input that was a maximum what came back to its outputs.
 *
 * @param[in] indices Positions of the maxima in their plane.
 * @returns false if an index lies beyond the plane.
 */
template <class T>
bool max_pool_backward(
    const T* gradient,
    const int64_t* indices,
    T* out,
    int32_t planes,
    int32_t in_plane,
    int32_t out_plane) {
  for (; planes > 0; --planes, out += in_plane) {
    for (int32_t i = 0; i < in_plane; ++i) {
      out[i] = T(0);
    }
    for (int32_t i = 0; i < out_plane; ++i) {
      const int64_t index = *indices++;
      if (index < 0 || index >= in_plane) {
        return false;
      }
      out[index] = wrapping_sum(out[index], *gradient++);
    }
  }
  return true;
}

} // namespace torch::executor::native
