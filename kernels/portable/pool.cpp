#include "kernels/portable/pool.h"

namespace torch {
namespace executor {
namespace native {

namespace {

/// Elements of a window with its padding, without what lies beyond that.
int32_t padded_size(const Window& window, int32_t position) {
  const int32_t begin = position * window.stride - window.padding;
  const int32_t end = begin + window.kernel;
  const int32_t limit = window.in + window.padding;
  return (end < limit ? end : limit) - begin;
}

} // namespace

void avg_pool(
    const float* in,
    float* out,
    int32_t planes,
    const Window& height,
    const Window& width,
    bool count_padding,
    int32_t divisor) {
  for (; planes > 0; --planes, in += height.in * width.in) {
    for (int32_t y = 0; y < height.out; ++y) {
      const WindowPart rows = window_part(height, y);
      for (int32_t x = 0; x < width.out; ++x) {
        const WindowPart columns = window_part(width, x);
        float sum = 0.0f;
        for (int32_t row = rows.begin; row < rows.end; ++row) {
          const float* value = in + row * width.in + columns.begin;
          const float* const last = in + row * width.in + columns.end;
          while (value < last) {
            sum += *value++;
          }
        }
        int32_t count = divisor;
        if (count == 0) {
          count = count_padding ? padded_size(height, y) * padded_size(width, x)
                                : (rows.end - rows.begin) * (columns.end - columns.begin);
        }
        *out++ = sum / static_cast<float>(count);
      }
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
