#include "kernels/portable/convolution.h"

#include <cstring>

#include <executorch/runtime/platform/compiler.h>

namespace torch {
namespace executor {
namespace native {

namespace {

inline int32_t min(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/**
 * The products that make one output, as three nested loops, with the distances
 * between neighbours. Columns are neighbours in the weights.
 */
struct Taps {
  int32_t channels;
  int32_t rows;
  int32_t columns;
  // Distances in the input.
  int32_t in_channel;
  int32_t in_row;
  int32_t in_column;
  // Distances in the weights; of two output channels, `weight_out`.
  int32_t weight_channel;
  int32_t weight_row;
  int32_t weight_out;
  // Distance between two channels of the output.
  int32_t out_channel;
};

/// Turns outer loops of one pass into passes of the inner ones, where that
/// leaves the distances in the weights even.
void merge_loops(Taps& taps) {
  if (taps.columns == 1 && taps.weight_row == 1) {
    taps.columns = taps.rows;
    taps.in_column = taps.in_row;
    taps.weight_row = taps.weight_channel;
    taps.rows = 1;
  }
  if (taps.rows == 1) {
    taps.rows = taps.channels;
    taps.in_row = taps.in_channel;
    taps.weight_row = taps.weight_channel;
    taps.channels = 1;
    if (taps.columns == 1 && taps.weight_row == 1) {
      taps.columns = taps.rows;
      taps.in_column = taps.in_row;
      taps.rows = 1;
    }
  }
}

/**
 * Adds the products of one channel to four output channels by four pixels.
 *
 * @param[in] start What they are added to, [output channel][pixel].
 * @param[out] sums As start; may be the same.
 * @param[in] pixel Distance between the inputs of two pixels.
 */
#if defined(__ARM_FEATURE_FMA) && defined(__thumb__)

// The compiler keeps the pointers to the weights on the stack here; this way
// the inner loop takes 1.5 instructions per multiply-accumulate (1.9 if pixels
// are no neighbours) instead of 2.3.
#define CHANNEL_4X4(name, pixels_walked, load_inputs)                                 \
  ET_NOINLINE void name(                                                              \
      const Taps& taps,                                                               \
      const float* in,                                                                \
      const float* w0,                                                                \
      const float* start,                                                             \
      float* sums,                                                                    \
      int32_t pixel) {                                                                \
    constexpr int32_t kBytes = sizeof(float);                                         \
    const float* w1 = w0 + taps.weight_out;                                           \
    const float* w2 = w1 + taps.weight_out;                                           \
    const float* w3 = w2 + taps.weight_out;                                           \
    const int32_t pixel_step = pixel * kBytes;                                        \
    const int32_t columns = taps.columns;                                             \
    const int32_t column_step = taps.in_column * kBytes - pixels_walked * pixel_step; \
    const int32_t row_step = (taps.in_row - columns * taps.in_column) * kBytes;       \
    const int32_t weight_skip = (taps.weight_row - columns) * kBytes;                 \
    int32_t rows = taps.rows;                                                         \
    const void* scratch = start;                                                      \
    __asm__ volatile(                                                                 \
        "vldmia %[scratch], {s16-s31}\n"                                              \
        "1:\n"                                                                        \
        "mov %[scratch], %[columns]\n"                                                \
        "2:\n" load_inputs                                                            \
        "vldmia %[w0]!, {s4}\n"                                                       \
        "vldmia %[w1]!, {s5}\n"                                                       \
        "vldmia %[w2]!, {s6}\n"                                                       \
        "vldmia %[w3]!, {s7}\n"                                                       \
        "vfma.f32 s16, s0, s4\n"                                                      \
        "vfma.f32 s17, s1, s4\n"                                                      \
        "vfma.f32 s18, s2, s4\n"                                                      \
        "vfma.f32 s19, s3, s4\n"                                                      \
        "vfma.f32 s20, s0, s5\n"                                                      \
        "vfma.f32 s21, s1, s5\n"                                                      \
        "vfma.f32 s22, s2, s5\n"                                                      \
        "vfma.f32 s23, s3, s5\n"                                                      \
        "vfma.f32 s24, s0, s6\n"                                                      \
        "vfma.f32 s25, s1, s6\n"                                                      \
        "vfma.f32 s26, s2, s6\n"                                                      \
        "vfma.f32 s27, s3, s6\n"                                                      \
        "vfma.f32 s28, s0, s7\n"                                                      \
        "vfma.f32 s29, s1, s7\n"                                                      \
        "vfma.f32 s30, s2, s7\n"                                                      \
        "vfma.f32 s31, s3, s7\n"                                                      \
        "subs %[scratch], #1\n"                                                       \
        "bne 2b\n"                                                                    \
        "add %[in], %[row_step]\n"                                                    \
        "add %[w0], %[weight_skip]\n"                                                 \
        "add %[w1], %[weight_skip]\n"                                                 \
        "add %[w2], %[weight_skip]\n"                                                 \
        "add %[w3], %[weight_skip]\n"                                                 \
        "subs %[rows], #1\n"                                                          \
        "bne 1b\n"                                                                    \
        "ldr %[scratch], %[sums]\n"                                                   \
        "vstmia %[scratch], {s16-s31}\n"                                              \
        : [in] "+r"(in),                                                              \
          [w0] "+r"(w0),                                                              \
          [w1] "+r"(w1),                                                              \
          [w2] "+r"(w2),                                                              \
          [w3] "+r"(w3),                                                              \
          [rows] "+r"(rows),                                                          \
          [scratch] "+r"(scratch)                                                     \
        : [columns] "r"(columns),                                                     \
          [column_step] "r"(column_step),                                             \
          [row_step] "r"(row_step),                                                   \
          [weight_skip] "r"(weight_skip),                                             \
          [pixel] "r"(pixel_step),                                                    \
          [sums] "m"(sums)                                                            \
        : "s0",                                                                       \
          "s1",                                                                       \
          "s2",                                                                       \
          "s3",                                                                       \
          "s4",                                                                       \
          "s5",                                                                       \
          "s6",                                                                       \
          "s7",                                                                       \
          "s16",                                                                      \
          "s17",                                                                      \
          "s18",                                                                      \
          "s19",                                                                      \
          "s20",                                                                      \
          "s21",                                                                      \
          "s22",                                                                      \
          "s23",                                                                      \
          "s24",                                                                      \
          "s25",                                                                      \
          "s26",                                                                      \
          "s27",                                                                      \
          "s28",                                                                      \
          "s29",                                                                      \
          "s30",                                                                      \
          "s31",                                                                      \
          "cc",                                                                       \
          "memory");                                                                  \
  }

CHANNEL_4X4(
    channel_4x4_neighbours,
    0,
    "vldmia %[in], {s0-s3}\n"
    "add %[in], %[column_step]\n")
CHANNEL_4X4(
    channel_4x4_apart,
    3,
    "vldr s0, [%[in]]\n"
    "add %[in], %[pixel]\n"
    "vldr s1, [%[in]]\n"
    "add %[in], %[pixel]\n"
    "vldr s2, [%[in]]\n"
    "add %[in], %[pixel]\n"
    "vldr s3, [%[in]]\n"
    "add %[in], %[column_step]\n")

#undef CHANNEL_4X4

#else

void channel_4x4_apart(
    const Taps& taps,
    const float* in,
    const float* weight,
    const float* start,
    float* sums,
    int32_t pixel) {
  for (int32_t i = 0; i < 16; ++i) {
    sums[i] = start[i];
  }
  for (int32_t row = 0; row < taps.rows; ++row) {
    for (int32_t column = 0; column < taps.columns; ++column) {
      const float* const x = in + row * taps.in_row + column * taps.in_column;
      const float* const w = weight + row * taps.weight_row + column;
      for (int32_t i = 0; i < 16; ++i) {
        sums[i] += x[i % 4 * pixel] * w[i / 4 * taps.weight_out];
      }
    }
  }
}

void channel_4x4_neighbours(
    const Taps& taps,
    const float* in,
    const float* weight,
    const float* start,
    float* sums,
    int32_t pixel) {
  channel_4x4_apart(taps, in, weight, start, sums, pixel);
}

#endif

/// Computes four output channels by four pixels.
///
/// @param[in] start What the sums start from, [output channel][pixel].
void block_4x4(
    const Taps& taps,
    const float* in,
    const float* weight,
    const float* start,
    float* out,
    int32_t in_pixel,
    int32_t out_pixel) {
  float sums[16];
  const auto channel_4x4 = in_pixel == 1 ? channel_4x4_neighbours : channel_4x4_apart;
  for (int32_t channel = taps.channels; channel > 0; --channel) {
    channel_4x4(taps, in, weight, start, sums, in_pixel);
    start = sums;
    in += taps.in_channel;
    weight += taps.weight_channel;
  }
  const float* sum = start;
  for (int32_t i = 4; i > 0; --i, sum += 4, out += taps.out_channel) {
    if (out_pixel == 1) {
      std::memcpy(out, sum, 4 * sizeof(float));
    } else {
      float* to = out;
      *to = sum[0];
      to += out_pixel;
      *to = sum[1];
      to += out_pixel;
      *to = sum[2];
      to += out_pixel;
      *to = sum[3];
    }
  }
}

/// Computes four output channels of one pixel.
void block_4x1(
    const Taps& taps,
    const float* in,
    const float* weight,
    const float* start,
    float* out) {
  float s0 = start[0], s1 = start[4], s2 = start[8], s3 = start[12];
  const int32_t weight_out = taps.weight_out;
  for (int32_t channel = taps.channels; channel > 0; --channel) {
    const float* in_row = in;
    const float* weight_row = weight;
    for (int32_t row = taps.rows; row > 0; --row) {
      const float* x = in_row;
      const float* w0 = weight_row;
      const float* w1 = w0 + weight_out;
      const float* w2 = w1 + weight_out;
      const float* w3 = w2 + weight_out;
      int32_t column = taps.columns;
      do {
        const float value = *x;
        x += taps.in_column;
        s0 += value * *w0++;
        s1 += value * *w1++;
        s2 += value * *w2++;
        s3 += value * *w3++;
      } while (--column > 0);
      in_row += taps.in_row;
      weight_row += taps.weight_row;
    }
    in += taps.in_channel;
    weight += taps.weight_channel;
  }
  out[0] = s0;
  out += taps.out_channel;
  out[0] = s1;
  out += taps.out_channel;
  out[0] = s2;
  out += taps.out_channel;
  out[0] = s3;
}

/// Computes one output channel by four pixels.
void block_1x4(
    const Taps& taps,
    const float* in,
    const float* weight,
    const float* start,
    float* out,
    int32_t in_pixel,
    int32_t out_pixel) {
  float s0 = *start;
  float s1 = s0, s2 = s0, s3 = s0;
  const int32_t column_step = taps.in_column - 3 * in_pixel;
  for (int32_t channel = taps.channels; channel > 0; --channel) {
    const float* in_row = in;
    const float* weight_row = weight;
    for (int32_t row = taps.rows; row > 0; --row) {
      const float* x = in_row;
      const float* w = weight_row;
      int32_t column = taps.columns;
      do {
        const float value = *w++;
        s0 += *x * value;
        x += in_pixel;
        s1 += *x * value;
        x += in_pixel;
        s2 += *x * value;
        x += in_pixel;
        s3 += *x * value;
        x += column_step;
      } while (--column > 0);
      in_row += taps.in_row;
      weight_row += taps.weight_row;
    }
    in += taps.in_channel;
    weight += taps.weight_channel;
  }
  out[0] = s0;
  out += out_pixel;
  out[0] = s1;
  out += out_pixel;
  out[0] = s2;
  out += out_pixel;
  out[0] = s3;
}

/// Computes one output.
void block_1x1(
    const Taps& taps,
    const float* in,
    const float* weight,
    const float* start,
    float* out) {
  float sum = *start;
  for (int32_t channel = taps.channels; channel > 0; --channel) {
    const float* in_row = in;
    const float* weight_row = weight;
    for (int32_t row = taps.rows; row > 0; --row) {
      const float* x = in_row;
      const float* w = weight_row;
      int32_t column = taps.columns;
      do {
        sum += *x * *w++;
        x += taps.in_column;
      } while (--column > 0);
      in_row += taps.in_row;
      weight_row += taps.weight_row;
    }
    in += taps.in_channel;
    weight += taps.weight_channel;
  }
  *out = sum;
}

/// Computes a line of pixels that use the same taps, of four output channels
/// or of one.
void line(
    const Taps& taps,
    bool four_channels,
    const float* in,
    const float* weight,
    const float* start,
    float* out,
    int32_t pixels,
    int32_t in_pixel,
    int32_t out_pixel) {
  for (int32_t done = 0; done < pixels;) {
    if (pixels >= 4) {
      // The last block overlaps the one before rather than being smaller.
      done = min(done, pixels - 4);
      (four_channels ? block_4x4 : block_1x4)(
          taps, in + done * in_pixel, weight, start, out + done * out_pixel, in_pixel, out_pixel);
      done += 4;
    } else {
      (four_channels ? block_4x1 : block_1x1)(
          taps, in + done * in_pixel, weight, start, out + done * out_pixel);
      ++done;
    }
  }
}

/// One dim of a convolution.
struct Axis {
  int32_t in;
  int32_t out;
  int32_t kernel;
  int32_t stride;
  int32_t padding;
  int32_t dilation;
};

/// Neighbouring outputs along an axis that use the same part of the kernel.
struct Range {
  int32_t begin;
  int32_t end;
  int32_t first_tap;
  int32_t taps;
  // Where the first tap of the first output falls in the input.
  int32_t in;
};

/// The range that starts at output `begin`: all outputs whose kernels lie within
/// the input, or one.
Range range_at(const Axis& axis, int32_t begin) {
  const int32_t start = begin * axis.stride - axis.padding;
  // Taps are cut where they fall left of 0, or right of the input.
  const int32_t first = start < 0 ? (axis.dilation - 1 - start) / axis.dilation : 0;
  const int32_t room = axis.in - 1 - start;
  const int32_t last = room < 0 ? 0 : min(axis.kernel, room / axis.dilation + 1);
  Range range;
  range.begin = begin;
  range.end = begin + 1;
  range.first_tap = first;
  range.taps = last > first ? last - first : 0;
  range.in = start + first * axis.dilation;
  if (range.taps == axis.kernel) {
    const int32_t reach = room - (axis.kernel - 1) * axis.dilation;
    range.end = min(axis.out, begin + reach / axis.stride + 1);
  }
  return range;
}

/// All pixels of four output channels, or of one.
void plane(
    const Axis& height,
    const Axis& width,
    const Taps& all,
    bool four_channels,
    const float* in,
    const float* weight,
    const float* bias,
    float* out) {
  // What the blocks of four pixels start from.
  float start[16] = {};
  if (bias != nullptr) {
    for (int32_t i = 0; i < (four_channels ? 16 : 4); ++i) {
      start[i] = bias[i / 4];
    }
  }
  const int32_t in_vertical = height.stride * width.in;
  for (int32_t top = 0; top < height.out;) {
    const Range y = range_at(height, top);
    for (int32_t left = 0; left < width.out;) {
      const Range x = range_at(width, left);
      Taps taps = all;
      taps.rows = y.taps;
      taps.columns = x.taps;
      if (taps.rows == 0 || taps.columns == 0 || taps.channels == 0) {
        // Nothing but padding: the inner loops run at least once, the outer one does not.
        taps.channels = 0;
      } else {
        merge_loops(taps);
      }
      const float* from = in + y.in * width.in + x.in;
      const float* const w = weight + y.first_tap * width.kernel + x.first_tap;
      float* to = out + y.begin * width.out + x.begin;
      const int32_t rows = y.end - y.begin;
      const int32_t columns = x.end - x.begin;
      if (columns >= 4 || columns >= rows) {
        for (int32_t i = 0; i < rows; ++i) {
          line(taps, four_channels, from, w, start, to, columns, width.stride, 1);
          from += in_vertical;
          to += width.out;
        }
      } else {
        for (int32_t i = 0; i < columns; ++i) {
          line(taps, four_channels, from, w, start, to, rows, in_vertical, width.out);
          from += width.stride;
          ++to;
        }
      }
      left = x.end;
    }
    top = y.end;
  }
}

} // namespace

void convolution(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape) {
  Axis height{
      shape.in_height,
      shape.out_height,
      shape.kernel_height,
      shape.stride_height,
      shape.padding_height,
      shape.dilation_height};
  Axis width{
      shape.in_width,
      shape.out_width,
      shape.kernel_width,
      shape.stride_width,
      shape.padding_width,
      shape.dilation_width};
  const int32_t in_plane = height.in * width.in;
  const int32_t out_plane = height.out * width.out;
  const int32_t kernel = height.kernel * width.kernel;
  if (kernel == 1 && in_plane == out_plane && height.stride == 1 && width.stride == 1 &&
      height.padding == 0 && width.padding == 0) {
    // Rows of pixels need not be told apart.
    width.in = in_plane;
    width.out = out_plane;
    height.in = 1;
    height.out = 1;
  }
  Taps taps;
  taps.channels = shape.in_channels;
  taps.in_channel = in_plane;
  taps.in_row = height.dilation * width.in;
  taps.in_column = width.dilation;
  taps.weight_channel = kernel;
  taps.weight_row = width.kernel;
  taps.weight_out = shape.in_channels * kernel;
  taps.out_channel = out_plane;
  const bool four_channels = shape.out_channels >= 4;
  for (int32_t image = 0; image < shape.batch; ++image) {
    const float* group_weight = weight;
    const float* group_bias = bias;
    for (int32_t group = 0; group < shape.groups; ++group) {
      for (int32_t done = 0; done < shape.out_channels;) {
        const int32_t start = four_channels ? min(done, shape.out_channels - 4) : done;
        plane(
            height,
            width,
            taps,
            four_channels,
            in,
            group_weight + start * taps.weight_out,
            group_bias == nullptr ? nullptr : group_bias + start,
            out + start * out_plane);
        done = start + (four_channels ? 4 : 1);
      }
      in += shape.in_channels * in_plane;
      out += shape.out_channels * out_plane;
      group_weight += shape.out_channels * taps.weight_out;
      if (group_bias != nullptr) {
        group_bias += shape.out_channels;
      }
    }
  }
}

void matmul(const float* a, const float* b, float* out, size_t rows, size_t inner, size_t columns) {
  const int32_t pixels = static_cast<int32_t>(columns);
  convolution(
      b,
      a,
      nullptr,
      out,
      {1,
       1,
       static_cast<int32_t>(inner),
       static_cast<int32_t>(rows),
       1,
       pixels,
       1,
       pixels,
       1,
       1,
       1,
       1,
       0,
       0,
       1,
       1});
}

} // namespace native
} // namespace executor
} // namespace torch
