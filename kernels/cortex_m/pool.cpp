#include "kernels/cortex_m/op_pool.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// The nearest integer, halves to even, of a number below 2^22.
float round_to_even(float value) {
  constexpr float kRound = 12582912.0f; // 1.5 * 2^23
  return (value + kRound) - kRound;
}

/**
 * Starts a result with `begin()`, feeds it everything under its window with `take(result, value)`
 * row by row, and stores `end(result, number of values)`.
 */
template <class Begin, class Take, class End>
void pool(
    const PoolWindows& windows,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out,
    Begin&& begin,
    Take&& take,
    End&& end) {
  for (int32_t n = 0; n < out_shape.batch; ++n) {
    for (int32_t y = 0; y < out_shape.height; ++y) {
      const Taps rows(windows.height, y);
      for (int32_t x = 0; x < out_shape.width; ++x) {
        const Taps columns(windows.width, x);
        const int8_t* const corner = in + n * in_shape.batch_step +
            (rows.origin + rows.begin) * in_shape.row_step +
            (columns.origin + columns.begin) * in_shape.column_step;
        int8_t* const pixel =
            out + n * out_shape.batch_step + y * out_shape.row_step + x * out_shape.column_step;
        for (int32_t c = 0; c < out_shape.channels; ++c) {
          auto result = begin();
          for (int32_t i = 0; i < rows.end - rows.begin; ++i) {
            const int8_t* value = corner + c * in_shape.channel_step + i * in_shape.row_step;
            for (int32_t j = 0; j < columns.end - columns.begin; ++j) {
              take(result, *value);
              value += in_shape.column_step;
            }
          }
          pixel[c * out_shape.channel_step] =
              end(result, (rows.end - rows.begin) * (columns.end - columns.begin));
        }
      }
    }
  }
}

} // namespace

void max_pool(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out) {
  pool(
      windows,
      in_shape,
      in,
      out_shape,
      out,
      [] { return int32_t{-128}; },
      [](int32_t& largest, int8_t value) { largest = value > largest ? value : largest; },
      [&](int32_t largest, int32_t) { return range.clamp(largest); });
}

void avg_pool(
    const PoolWindows& windows,
    int32_t zero_point,
    float scale,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out) {
  pool(
      windows,
      in_shape,
      in,
      out_shape,
      out,
      [] { return 0.0f; },
      [&](float& sum, int8_t value) {
        sum += rounded(static_cast<float>(value - zero_point) * scale);
      },
      [&](float sum, int32_t count) {
        const float mean = sum / static_cast<float>(count) / scale;
        return Range{-128, 127}.clamp(static_cast<int32_t>(round_to_even(mean)) + zero_point);
      });
}

bool check_pool(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const ArrayRef<int64_t>& kernel_size,
    const ArrayRef<int64_t>& stride,
    const ArrayRef<int64_t>& padding,
    const Tensor& out,
    PoolWindows& windows,
    Shape& sizes) {
  KERNEL_CHECK(
      ctx,
      kernel_size.size() == 1 || kernel_size.size() == 2,
      InvalidArgument,
      false,
      "kernel_size does not have one or two elements");
  Image image;
  if (!check_int8(ctx, input, out) || !in_range(ctx, kernel_size, 1, 0x7fff) ||
      !describe_image(ctx, input, image)) {
    return false;
  }
  Window& height = windows.height;
  Window& width = windows.width;
  height.in = image.height;
  width.in = image.width;
  height.kernel = static_cast<int32_t>(kernel_size[0]);
  width.kernel = static_cast<int32_t>(kernel_size[kernel_size.size() - 1]);
  if (!height.set(ctx, stride, padding, {}, 0, false) ||
      !width.set(ctx, stride, padding, {}, 1, false)) {
    return false;
  }
  KERNEL_CHECK(
      ctx,
      2 * height.padding <= height.kernel && 2 * width.padding <= width.kernel &&
          image.height > 0 && image.width > 0,
      InvalidArgument,
      false,
      "padding is more than half of kernel_size, or input has an empty plane");
  for (ssize_t i = 0; i + 2 < input.dim(); ++i) {
    sizes.append(input.sizes()[i]);
  }
  sizes.append(height.out);
  sizes.append(width.out);
  return true;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
