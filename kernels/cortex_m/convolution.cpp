#include "kernels/cortex_m/convolution.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// Calls `sum(row, column, channel)` for every element of the images, and stores what it makes of
/// the sums.
template <class Sum>
void for_outputs(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out,
    Sum&& sum) {
  for (int32_t n = 0; n < out_shape.batch; ++n) {
    const int8_t* const image = in + n * in_shape.batch_step;
    for (int32_t y = 0; y < out_shape.height; ++y) {
      for (int32_t x = 0; x < out_shape.width; ++x) {
        int8_t* const pixel =
            out + n * out_shape.batch_step + y * out_shape.row_step + x * out_shape.column_step;
        for (int32_t o = 0; o < out_shape.channels; ++o) {
          const int32_t start = parameters.bias == nullptr ? 0 : parameters.bias[o];
          const int32_t total = wrapping_add(start, sum(image, y, x, o));
          const Factor factor = {parameters.multipliers[o], parameters.shifts[o]};
          pixel[o * out_shape.channel_step] = parameters.range.clamp(
              wrapping_add(requantize(total, factor), parameters.output_offset));
        }
      }
    }
  }
}

/// The sum of `count` products with inputs that lie `step` apart.
int32_t dot(const int8_t* in, int32_t step, int32_t offset, const int8_t* weight, int32_t count) {
  int32_t sum = 0;
  for (int32_t i = 0; i < count; ++i) {
    sum = wrapping_add(sum, (*in + offset) * weight[i]);
    in += step;
  }
  return sum;
}

} // namespace

void convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    int32_t groups,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out) {
  const Window& height = parameters.height;
  const Window& width = parameters.width;
  const int32_t in_channels = in_shape.channels / groups;
  const int32_t out_channels = out_shape.channels / groups;
  for_outputs(
      parameters,
      in_shape,
      in,
      out_shape,
      out,
      [&](const int8_t* image, int32_t y, int32_t x, int32_t o) {
        const Taps rows(height, y);
        const Taps columns(width, x);
        const int8_t* const group = image + o / out_channels * in_channels * in_shape.channel_step;
        const int8_t* const kernel = weight + o * height.kernel * width.kernel * in_channels;
        int32_t sum = 0;
        for (int32_t i = rows.begin; i < rows.end; ++i) {
          for (int32_t j = columns.begin; j < columns.end; ++j) {
            sum = wrapping_add(
                sum,
                dot(group + (rows.origin + i * height.dilation) * in_shape.row_step +
                        (columns.origin + j * width.dilation) * in_shape.column_step,
                    in_shape.channel_step,
                    parameters.input_offset,
                    kernel + (i * width.kernel + j) * in_channels,
                    in_channels));
          }
        }
        return sum;
      });
}

void depthwise_convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out) {
  const Window& height = parameters.height;
  const Window& width = parameters.width;
  const int32_t multiplier = out_shape.channels / in_shape.channels;
  for_outputs(
      parameters,
      in_shape,
      in,
      out_shape,
      out,
      [&](const int8_t* image, int32_t y, int32_t x, int32_t o) {
        const Taps rows(height, y);
        const Taps columns(width, x);
        const int8_t* const plane = image + o / multiplier * in_shape.channel_step;
        int32_t sum = 0;
        for (int32_t i = rows.begin; i < rows.end; ++i) {
          for (int32_t j = columns.begin; j < columns.end; ++j) {
            const int32_t value = plane
                [(rows.origin + i * height.dilation) * in_shape.row_step +
                 (columns.origin + j * width.dilation) * in_shape.column_step];
            sum = wrapping_add(
                sum,
                (value + parameters.input_offset) *
                    weight[(i * width.kernel + j) * out_shape.channels + o]);
          }
        }
        return sum;
      });
}

void transpose_convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out) {
  const Window& height = parameters.height;
  const Window& width = parameters.width;
  for_outputs(
      parameters,
      in_shape,
      in,
      out_shape,
      out,
      [&](const int8_t* image, int32_t y, int32_t x, int32_t o) {
        const int8_t* const kernel = weight + o * height.kernel * width.kernel * in_shape.channels;
        int32_t sum = 0;
        for (int32_t i = 0; i < height.kernel; ++i) {
          // The input row whose products with kernel row i go to output row y, times the stride.
          const int32_t row = y + height.padding - i * height.dilation;
          if (row < 0 || row % height.stride != 0 || row / height.stride >= in_shape.height) {
            continue;
          }
          for (int32_t j = 0; j < width.kernel; ++j) {
            const int32_t column = x + width.padding - j * width.dilation;
            if (column < 0 || column % width.stride != 0 ||
                column / width.stride >= in_shape.width) {
              continue;
            }
            sum = wrapping_add(
                sum,
                dot(image + row / height.stride * in_shape.row_step +
                        column / width.stride * in_shape.column_step,
                    in_shape.channel_step,
                    parameters.input_offset,
                    kernel + (i * width.kernel + j) * in_shape.channels,
                    in_shape.channels));
          }
        }
        return sum;
      });
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
