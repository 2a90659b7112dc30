#pragma once

#include <cstdint>

#include "kernels/math/round.h"
#include "kernels/util/dtypes.h"

namespace torch::executor::native {

/// One dim of an image that is resampled to another size.
struct ResampledAxis {
  int32_t in;
  int32_t out;
  // Distance in the input of two neighbouring outputs.
  float scale;
  bool align_corners;
};

/// Two neighbouring inputs, and the weight of the second.
struct Neighbours {
  int32_t first;
  int32_t second;
  float weight;
};

/// The input that output `position` is nearest to, by PyTorch's rule: floor(position * scale).
inline int32_t nearest(const ResampledAxis& axis, int32_t position) {
  const int32_t index = static_cast<int32_t>(static_cast<float>(position) * axis.scale);
  return index < axis.in ? index : axis.in - 1;
}

/// Returns the inputs on both sides of output `position`.
inline Neighbours neighbours(const ResampledAxis& axis, int32_t position) {
  float place = axis.align_corners ? axis.scale * static_cast<float>(position)
                                   : axis.scale * (static_cast<float>(position) + 0.5f) - 0.5f;
  if (!(place > 0.0f)) {
    place = 0.0f;
  }
  Neighbours result;
  result.first = static_cast<int32_t>(place);
  if (result.first > axis.in - 1) {
    result.first = axis.in - 1;
  }
  result.second = result.first + (result.first < axis.in - 1 ? 1 : 0);
  const float weight = place - static_cast<float>(result.first);
  result.weight = weight < 1.0f ? weight : 1.0f;
  return result;
}

/// The inputs that an antialiased output is made of: triangular weights around its centre, as wide
/// as the outputs are apart, but at least one input.
struct Triangle {
  float centre;
  float width;
  int32_t begin;
  int32_t end;

  Triangle(const ResampledAxis& axis, int32_t position) {
    width = axis.scale > 1.0f ? axis.scale : 1.0f;
    centre = axis.scale * (static_cast<float>(position) + 0.5f);
    const float low = centre - width + 0.5f;
    const float high = centre + width + 0.5f;
    begin = low > 0.0f ? static_cast<int32_t>(low) : 0;
    end = high < static_cast<float>(axis.in) ? static_cast<int32_t>(high) : axis.in;
  }

  /// Weight of an input, before the weights are scaled to a sum of 1.
  float weight(int32_t index) const {
    const float distance = (static_cast<float>(index) - centre + 0.5f) / width;
    const float value = 1.0f - (distance < 0.0f ? -distance : distance);
    return value > 0.0f ? value : 0.0f;
  }

  float sum() const {
    float total = 0.0f;
    for (int32_t i = begin; i < end; ++i) {
      total += weight(i);
    }
    return total;
  }
};

/// Resamples `planes` planes [height, width] of pixels, each of `elements` neighbouring elements:
/// each output is the input that it is nearest to.
template <class T>
void upsample_nearest(
    const T* in,
    T* out,
    int32_t planes,
    const ResampledAxis& height,
    const ResampledAxis& width,
    int32_t elements) {
  for (; planes > 0; --planes, in += height.in * width.in * elements) {
    for (int32_t y = 0; y < height.out; ++y) {
      const T* const row = in + nearest(height, y) * width.in * elements;
      for (int32_t x = 0; x < width.out; ++x) {
        const T* pixel = row + nearest(width, x) * elements;
        int32_t left = elements;
        do {
          *out++ = *pixel++;
        } while (--left != 0);
      }
    }
  }
}

/// Distances in elements between neighbours of images [N, C, height, width].
struct ImageSteps {
  int32_t batch;
  int32_t channel;
  int32_t row;
  int32_t column;
};

/// Resamples images of any layout: each output is interpolated from the four inputs around it.
template <class T>
void upsample_bilinear(
    const T* in,
    const ImageSteps& from,
    T* out,
    const ImageSteps& to,
    int32_t batch,
    int32_t channels,
    const ResampledAxis& height,
    const ResampledAxis& width) {
  using Number = ComputeType<T>;
  for (; batch > 0; --batch, in += from.batch, out += to.batch) {
    for (int32_t y = 0; y < height.out; ++y) {
      const Neighbours rows = neighbours(height, y);
      const int32_t below = (rows.second - rows.first) * from.row;
      const Number down = static_cast<Number>(rows.weight);
      for (int32_t x = 0; x < width.out; ++x) {
        const Neighbours columns = neighbours(width, x);
        const int32_t beside = (columns.second - columns.first) * from.column;
        const Number right = static_cast<Number>(columns.weight);
        const T* source = in + rows.first * from.row + columns.first * from.column;
        T* target = out + y * to.row + x * to.column;
        // The offset of an element is the same for all channels.
        for (int32_t c = channels; c > 0; --c) {
          const Number above = (1 - right) * static_cast<Number>(source[0]) +
              right * static_cast<Number>(source[beside]);
          const Number lower = (1 - right) * static_cast<Number>(source[below]) +
              right * static_cast<Number>(source[below + beside]);
          *target = static_cast<T>((1 - down) * above + down * lower);
          source += from.channel;
          target += to.channel;
        }
      }
    }
  }
}

/// Does the same as upsample_nearest(), with each output of all the inputs that two triangles
/// weigh: see Triangle.
template <class T>
void upsample_antialiased(
    const T* in,
    T* out,
    int32_t planes,
    const ResampledAxis& height,
    const ResampledAxis& width,
    int32_t elements) {
  using Number = ComputeType<T>;
  for (; planes > 0; --planes, in += height.in * width.in * elements) {
    for (int32_t y = 0; y < height.out; ++y) {
      const Triangle rows(height, y);
      const float row_sum = rows.sum();
      for (int32_t x = 0; x < width.out; ++x) {
        const Triangle columns(width, x);
        const float column_sum = columns.sum();
        for (int32_t i = 0; i < elements; ++i) {
          Number sum = 0;
          for (int32_t row = rows.begin; row < rows.end; ++row) {
            Number line = 0;
            for (int32_t column = columns.begin; column < columns.end; ++column) {
              line += static_cast<Number>(columns.weight(column)) *
                  static_cast<Number>(in[(row * width.in + column) * elements + i]);
            }
            sum += static_cast<Number>(rows.weight(row) / row_sum) *
                (line / static_cast<Number>(column_sum));
          }
          *out++ = static_cast<T>(sum);
        }
      }
    }
  }
}

/// The interpolation of grid_sample(), and the values outside of the input; numbers as in aten.
enum class Interpolation : int32_t { Bilinear = 0, Nearest = 1, Bicubic = 2 };
enum class GridPadding : int32_t { Zeros = 0, Border = 1, Reflection = 2 };

/// A coordinate of a grid, from -1 to 1, in pixels of an axis of size `size`.
float grid_coordinate(float coordinate, int32_t size, bool align_corners);

/// The coordinate within an axis that padding makes of one outside; NaN becomes 0.
float padded_coordinate(float coordinate, int32_t size, GridPadding padding, bool align_corners);

/// Weights of four neighbouring pixels for a point `fraction` right of the second: cubic
/// convolution, as PyTorch's with a = -0.75.
void cubic_weights(float fraction, float (&weights)[4]);

/// An element, or 0 outside of the plane.
template <class T>
ComputeType<T> pixel_at(const T* plane, int32_t height, int32_t width, float y, float x) {
  using Number = ComputeType<T>;
  if (!(y >= 0.0f && y < static_cast<float>(height) && x >= 0.0f &&
        x < static_cast<float>(width))) {
    return Number(0);
  }
  return static_cast<Number>(plane[static_cast<int32_t>(y) * width + static_cast<int32_t>(x)]);
}

/// Samples [channels, height, width] at the `points` (x, y) of a grid, to [channels, points].
template <class T>
void grid_sample(
    const T* in,
    const T* grid,
    T* out,
    int32_t channels,
    int32_t height,
    int32_t width,
    int32_t points,
    Interpolation interpolation,
    GridPadding padding,
    bool align_corners) {
  using Number = ComputeType<T>;
  for (int32_t point = 0; point < points; ++point) {
    float x = grid_coordinate(
        static_cast<float>(static_cast<Number>(grid[2 * point])), width, align_corners);
    float y = grid_coordinate(
        static_cast<float>(static_cast<Number>(grid[2 * point + 1])), height, align_corners);
    if (interpolation != Interpolation::Bicubic) {
      x = padded_coordinate(x, width, padding, align_corners);
      y = padded_coordinate(y, height, padding, align_corners);
    }
    const float left =
        interpolation == Interpolation::Nearest ? math::round_to_even(x) : math::floor(x);
    const float top =
        interpolation == Interpolation::Nearest ? math::round_to_even(y) : math::floor(y);
    float across[4];
    float down[4];
    if (interpolation == Interpolation::Bicubic) {
      cubic_weights(x - left, across);
      cubic_weights(y - top, down);
    }
    const T* plane = in;
    for (int32_t channel = 0; channel < channels; ++channel, plane += height * width) {
      Number value = 0;
      if (interpolation == Interpolation::Nearest) {
        value = pixel_at(plane, height, width, top, left);
      } else if (interpolation == Interpolation::Bilinear) {
        const Number right = static_cast<Number>(x - left);
        const Number below = static_cast<Number>(y - top);
        value = (1 - below) *
                ((1 - right) * pixel_at(plane, height, width, top, left) +
                 right * pixel_at(plane, height, width, top, left + 1)) +
            below *
                ((1 - right) * pixel_at(plane, height, width, top + 1, left) +
                 right * pixel_at(plane, height, width, top + 1, left + 1));
      } else {
        for (int32_t row = 0; row < 4; ++row) {
          const float from_y =
              padded_coordinate(top + static_cast<float>(row - 1), height, padding, align_corners);
          Number line = 0;
          for (int32_t column = 0; column < 4; ++column) {
            const float from_x = padded_coordinate(
                left + static_cast<float>(column - 1), width, padding, align_corners);
            line += static_cast<Number>(across[column]) *
                pixel_at(plane, height, width, from_y, from_x);
          }
          value += static_cast<Number>(down[row]) * line;
        }
      }
      out[channel * points + point] = static_cast<T>(value);
    }
  }
}

} // namespace torch::executor::native
