#include "kernels/cortex_m/convolution.h"

#include <cstring>

#include "kernels/cortex_m/dot.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// What an output position reads along one dim: kernel elements `tap`, `tap + tap_step` and so on,
/// with the inputs at `position`, `position + step` and so on.
struct Reads {
  int32_t tap = 0;
  int32_t tap_step = 1;
  int32_t position = 0;
  int32_t step = 0;
  int32_t count = 0;
};

Reads reads_of_convolution(const Window& window, int32_t out_position) {
  const Taps taps(window, out_position);
  Reads reads;
  if (taps.begin >= taps.end) {
    return reads;
  }
  reads.tap = taps.begin;
  reads.position = taps.origin + taps.begin * window.dilation;
  reads.step = window.inner_dilation();
  reads.count = taps.end - taps.begin;
  return reads;
}

/// Kernel element `i` reads the input at (out_position + padding - i * dilation) / stride, if there
/// is no remainder.
Reads reads_of_transpose(const Window& window, int32_t out_position) {
  Reads reads;
  int32_t at = out_position + window.padding;
  while (reads.tap < window.kernel && at >= 0 &&
         (at % window.stride != 0 || at / window.stride >= window.out)) {
    at -= window.dilation;
    ++reads.tap;
  }
  if (reads.tap >= window.kernel || at < 0) {
    return reads;
  }
  int32_t distance = window.dilation;
  while (distance % window.stride != 0 && reads.tap + reads.tap_step < window.kernel) {
    distance += window.dilation;
    ++reads.tap_step;
  }
  reads.position = at / window.stride;
  reads.count = (window.kernel - 1 - reads.tap) / reads.tap_step + 1;
  const int32_t fitting = at / distance + 1;
  reads.count = reads.count < fitting ? reads.count : fitting;
  // A step out of the input may be too far for 32 bits.
  reads.step = reads.count > 1 ? -(distance / window.stride) : 0;
  return reads;
}

/// Weights of `inner` input channels lie together.
struct Kernel {
  const int8_t* weight;
  int32_t inner;
  /// From an output channel to the next one, and from a kernel element.
  int32_t channel_step;
  int32_t tap_step;
};

/// What an output is summed from: rows and columns of the kernel, with steps between their
/// inputs and between their weights, and `inner` inputs each that lie `channel_step` apart.
struct Area {
  int32_t rows;
  int32_t columns;
  int32_t row_step;
  int32_t column_step;
  int32_t row_weights;
  int32_t column_weights;
  int32_t inner;
  int32_t channel_step;
  int32_t offset;
};

/// The outputs of a pixel each of whose channels reads the same one of the input.
__attribute__((noinline)) void depthwise_outputs(
    const ConvolutionParameters& parameters,
    const Area& area,
    const int8_t* in,
    const int8_t* weights,
    int32_t channels,
    int8_t* out) {
  // Storing an output changes nothing of copies.
  const Area taken = area;
  const Range range = parameters.range;
  const int32_t output_offset = parameters.output_offset;
  const int32_t* const bias = parameters.bias;
  const int32_t* const multipliers = parameters.multipliers;
  const int32_t* const shifts = parameters.shifts;
  int32_t c = 0;
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
  const int16x2_t offsets = twice(taken.offset);
  for (; c + 4 <= channels; c += 4) {
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    if (bias != nullptr) {
      s0 = bias[c], s1 = bias[c + 1], s2 = bias[c + 2], s3 = bias[c + 3];
    }
    const int8_t* row = in;
    const int8_t* row_weights = weights;
    for (int32_t i = taken.rows; i > 0; --i) {
      const int8_t* x = row;
      const int8_t* w = row_weights;
      for (int32_t j = taken.columns; j > 0; --j) {
        const uint32_t word = load_word(x);
        const uint32_t weight = load_word(w);
        const int16x2_t x_even = add_even_bytes(offsets, word);
        const int16x2_t w_even = even_bytes(weight);
        s0 = multiply_low(x_even, w_even, s0);
        s2 = multiply_high(x_even, w_even, s2);
        const int16x2_t x_odd = add_odd_bytes(offsets, word);
        const int16x2_t w_odd = odd_bytes(weight);
        s1 = multiply_low(x_odd, w_odd, s1);
        s3 = multiply_high(x_odd, w_odd, s3);
        x += taken.column_step;
        w += taken.column_weights;
      }
      row += taken.row_step;
      row_weights += taken.row_weights;
    }
    const int32_t sums[] = {s0, s1, s2, s3};
    for (int32_t i = 0; i < 4; ++i) {
      const int32_t scaled = requantize(sums[i], {multipliers[c + i], shifts[c + i]});
      out[i] = range.clamp(wrapping_add(scaled, output_offset));
    }
    in += 4;
    weights += 4;
    out += 4;
  }
#endif
  for (; c < channels; ++c) {
    int32_t sum = bias == nullptr ? 0 : bias[c];
    const int8_t* row = in++;
    const int8_t* row_weights = weights++;
    for (int32_t i = taken.rows; i > 0; --i) {
      const int8_t* x = row;
      const int8_t* w = row_weights;
      for (int32_t j = taken.columns; j > 0; --j) {
        sum = wrapping_add(sum, (*x + taken.offset) * *w);
        x += taken.column_step;
        w += taken.column_weights;
      }
      row += taken.row_step;
      row_weights += taken.row_weights;
    }
    const int32_t scaled = requantize(sum, {multipliers[c], shifts[c]});
    *out++ = range.clamp(wrapping_add(scaled, output_offset));
  }
}

/// Inputs under a window that are put together, so that one row of products makes a sum.
constexpr int32_t kGathered = 256;

/// Copies the inputs of an area to their places in a kernel whose rows have `row_taps` elements.
void gather(const Area& area, const int8_t* in, int32_t row_taps, int8_t* to) {
  const int32_t inner = area.inner;
  const int32_t channel_step = area.channel_step;
  const int32_t words = channel_step == 1 ? inner / 4 : 0;
  for (int32_t i = area.rows; i > 0; --i) {
    const int8_t* x = in;
    int8_t* element = to;
    for (int32_t j = area.columns; j > 0; --j) {
      const int8_t* from = x;
      int8_t* const end = element + inner;
      for (int32_t k = words; k > 0; --k) {
        const uint32_t word = load_word(from);
        std::memcpy(element, &word, sizeof(word));
        from += 4;
        element += 4;
      }
      while (element != end) {
        *element++ = *from;
        from += channel_step;
      }
      x += area.column_step;
    }
    to += row_taps * inner;
    in += area.row_step;
  }
}

/// The outputs of a pixel of channels [first, first + count), which all read the same area. Their
/// weights lie `weight_step` apart. A function of its own: within a larger one the compiler would
/// keep most of it on the stack.
__attribute__((noinline)) void outputs_of(
    const ConvolutionParameters& parameters,
    const Area& area,
    const int8_t* in,
    const int8_t* weights,
    int32_t weight_step,
    int32_t first,
    int32_t count,
    int8_t* out,
    int32_t out_step) {
  // Storing an output changes nothing of copies.
  const Area taken = area;
  const Range range = parameters.range;
  const int32_t output_offset = parameters.output_offset;
  const int32_t* const bias = parameters.bias;
  const int32_t* const multipliers = parameters.multipliers;
  const int32_t* const shifts = parameters.shifts;
  const int32_t end = first + count;
  for (int32_t c = first; c < end; c += 2) {
    const bool is_last = c + 1 == end;
    // Without a second channel the first one is computed twice.
    const int32_t step = is_last ? 0 : weight_step;
    int32_t s0 = bias == nullptr ? 0 : bias[c];
    int32_t s1 = bias == nullptr || is_last ? 0 : bias[c + 1];
    const int8_t* row = in;
    const int8_t* row_weights = weights;
    for (int32_t i = taken.rows; i > 0; --i) {
      const int8_t* x = row;
      const int8_t* w = row_weights;
      for (int32_t j = taken.columns; j > 0; --j) {
        if (taken.channel_step == 1) {
          dot_two<false>(x, taken.offset, w, step, 0, taken.inner, s0, s1);
        } else {
          const int8_t* value = x;
          for (int32_t k = 0; k < taken.inner; ++k) {
            s0 = wrapping_add(s0, (*value + taken.offset) * w[k]);
            s1 = wrapping_add(s1, (*value + taken.offset) * w[k + step]);
            value += taken.channel_step;
          }
        }
        x += taken.column_step;
        w += taken.column_weights;
      }
      row += taken.row_step;
      row_weights += taken.row_weights;
    }
    weights += 2 * weight_step;
    *out = range.clamp(wrapping_add(requantize(s0, {multipliers[c], shifts[c]}), output_offset));
    out += out_step;
    if (!is_last) {
      *out = range.clamp(
          wrapping_add(requantize(s1, {multipliers[c + 1], shifts[c + 1]}), output_offset));
      out += out_step;
    }
  }
}

void convolve(
    const ConvolutionParameters& parameters,
    Reads (*find_reads)(const Window&, int32_t),
    const Image& in_shape,
    const int8_t* in,
    int32_t groups,
    const Kernel& kernel,
    const Image& out_shape,
    int8_t* out) {
  const int32_t group_channels = out_shape.channels / groups;
  const int32_t in_group_step = kernel.inner * in_shape.channel_step;
  const int32_t row_taps = parameters.width.kernel;
  const int32_t kernel_size = parameters.height.kernel * row_taps * kernel.inner;
  const auto zero = static_cast<int8_t>(-parameters.input_offset);
  const bool is_gathered = find_reads == reads_of_convolution && kernel.tap_step == kernel.inner &&
      kernel_size <= kGathered && zero == -parameters.input_offset;
  const bool is_depthwise = kernel.inner == 1 && kernel.channel_step == 1 && group_channels == 1 &&
      in_shape.channel_step == 1 && out_shape.channel_step == 1;
  int8_t gathered[kGathered];
  for (int32_t n = 0; n < out_shape.batch; ++n) {
    for (int32_t y = 0; y < out_shape.height; ++y) {
      const Reads rows = find_reads(parameters.height, y);
      for (int32_t x = 0; x < out_shape.width; ++x) {
        const Reads columns = find_reads(parameters.width, x);
        const int8_t* group = in + n * in_shape.batch_step + rows.position * in_shape.row_step +
            columns.position * in_shape.column_step;
        const int32_t first = (rows.tap * row_taps + columns.tap) * kernel.tap_step;
        const int8_t* weight = kernel.weight + (is_gathered ? 0 : first);
        int8_t* pixel =
            out + n * out_shape.batch_step + y * out_shape.row_step + x * out_shape.column_step;
        const Area area = {
            rows.count,
            columns.count,
            rows.step * in_shape.row_step,
            columns.step * in_shape.column_step,
            rows.tap_step * row_taps * kernel.tap_step,
            columns.tap_step * kernel.tap_step,
            kernel.inner,
            in_shape.channel_step,
            parameters.input_offset};
        if (is_depthwise) {
          depthwise_outputs(parameters, area, group, weight, out_shape.channels, pixel);
          continue;
        }
        const Area row = {1, 1, 0, 0, 0, 0, kernel_size, 1, parameters.input_offset};
        if (is_gathered) {
          std::memset(gathered, zero, static_cast<size_t>(kernel_size));
        }
        for (int32_t o = 0; o < out_shape.channels; o += group_channels) {
          if (is_gathered) {
            gather(area, group, row_taps, gathered + first);
          }
          outputs_of(
              parameters,
              is_gathered ? row : area,
              is_gathered ? gathered : group,
              weight + o * kernel.channel_step,
              kernel.channel_step,
              o,
              group_channels,
              pixel,
              out_shape.channel_step);
          pixel += group_channels * out_shape.channel_step;
          group += in_group_step;
        }
      }
    }
  }
}

/// A kernel [out, height, width, inner].
Kernel kernel_of(const ConvolutionParameters& parameters, const int8_t* weight, int32_t inner) {
  return {weight, inner, parameters.height.kernel * parameters.width.kernel * inner, inner};
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
  const Kernel kernel = kernel_of(parameters, weight, in_shape.channels / groups);
  convolve(parameters, reads_of_convolution, in_shape, in, groups, kernel, out_shape, out);
}

void depthwise_convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out) {
  const Kernel kernel = {weight, 1, 1, out_shape.channels};
  convolve(
      parameters, reads_of_convolution, in_shape, in, in_shape.channels, kernel, out_shape, out);
}

void transpose_convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out) {
  const Kernel kernel = kernel_of(parameters, weight, in_shape.channels);
  convolve(parameters, reads_of_transpose, in_shape, in, 1, kernel, out_shape, out);
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
