#include "kernels/portable/convolution.h"

#include <cstddef>

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
 * How the blocks of a range of outputs are computed: what Taps says, in bytes and as steps from the
 * end of one loop to the beginning of the next. The assembler code knows the layout.
 */
struct Steps {
  int32_t in_column;
  int32_t in_row;
  int32_t weight_row;
  int32_t rows;
  // From the first of four pixels to the second, and from the third to the last; from the second to
  // the third.
  int32_t pixel;
  int32_t turn;
  int32_t channels;
  // Between the weights of two output channels.
  int32_t weight_out;
  int32_t columns;
  int32_t in_channel;
  int32_t weight_channel;
  // What the sums start from: for each of the output channels the same four times.
  const float* start;
  // Between two channels of the output.
  int32_t out_channel;
};

constexpr int32_t kBytes = sizeof(float);

/// @param[in] pixels How many pixels a block has: the walk over them is part of a column's step.
Steps make_steps(
    const Taps& taps,
    const float* start,
    int32_t pixels,
    int32_t in_pixel,
    int32_t in_turn) {
  Steps steps;
  const bool walks = pixels > 1 && (in_pixel != 1 || in_turn != 1);
  steps.in_column = (taps.in_column - (walks ? 2 * in_pixel + in_turn : 0)) * kBytes;
  steps.in_row = (taps.in_row - taps.columns * taps.in_column) * kBytes;
  steps.weight_row = (taps.weight_row - taps.columns) * kBytes;
  steps.rows = taps.rows;
  steps.pixel = in_pixel * kBytes;
  steps.turn = in_turn * kBytes;
  steps.channels = taps.channels;
  steps.weight_out = taps.weight_out * kBytes;
  steps.columns = taps.columns;
  steps.in_channel = (taps.in_channel - taps.rows * taps.in_row) * kBytes;
  steps.weight_channel = (taps.weight_channel - taps.rows * taps.weight_row) * kBytes;
  steps.start = start;
  steps.out_channel = taps.out_channel * kBytes;
  return steps;
}

#if defined(__ARM_FEATURE_FMA) && defined(__thumb__)

// The compiler keeps pointers to weights on the stack in the inner loops of what follows. Written
// out they take, per multiply-accumulate, 1.5 instructions instead of 2.3 (four channels by four
// neighbouring pixels), 1.9 (by four other pixels), 3 instead of 6 (by one pixel), 2.25 instead of
// 4.3 (one channel by four neighbouring pixels).
//
// r0 steps, r1 input, r2-r5 weights of four channels, r6 scratch, r7 in_column, r8 in_row,
// r9 weight_row, r10 rows, r11 pixel, r12 turn, lr channels; s0-s3 inputs, s4-s7 weights, s16-s31
// sums.
static_assert(offsetof(Steps, in_column) == 0 && offsetof(Steps, channels) == 24);
static_assert(offsetof(Steps, rows) == 12 && offsetof(Steps, weight_out) == 28);
static_assert(offsetof(Steps, columns) == 32 && offsetof(Steps, in_channel) == 36);
static_assert(offsetof(Steps, weight_channel) == 40 && offsetof(Steps, start) == 44);
static_assert(offsetof(Steps, out_channel) == 48);

#define BLOCK(name, load_start, load_inputs, load_weights, multiply, skip_weights, store) \
  __attribute__((naked)) void name(const Steps&, const float*, const float*, float*) {    \
    __asm__ volatile(                                                                     \
        "push {r3-r11, lr}\n"                                                             \
        "vpush {s16-s31}\n"                                                               \
        "ldr r6, [r0, #44]\n" load_start                                                  \
        "ldmia r0, {r7-r12, lr}\n"                                                        \
        "ldr r6, [r0, #28]\n"                                                             \
        "add r3, r2, r6\n"                                                                \
        "add r4, r3, r6\n"                                                                \
        "add r5, r4, r6\n"                                                                \
        "1:\n"                                                                            \
        "ldr r6, [r0, #32]\n"                                                             \
        "2:\n" load_inputs load_weights multiply                                          \
        "subs r6, #1\n"                                                                   \
        "bne 2b\n"                                                                        \
        "add r1, r8\n"                                                                    \
        "mov r6, r9\n" skip_weights                                                       \
        "subs r10, #1\n"                                                                  \
        "bne 1b\n"                                                                        \
        "subs lr, #1\n"                                                                   \
        "beq 3f\n"                                                                        \
        "ldr r6, [r0, #36]\n"                                                             \
        "add r1, r6\n"                                                                    \
        "ldr r6, [r0, #40]\n" skip_weights                                                \
        "ldr r10, [r0, #12]\n"                                                            \
        "b 1b\n"                                                                          \
        "3:\n"                                                                            \
        "ldr r6, [sp, #64]\n"                                                             \
        "ldr r7, [r0, #48]\n" store                                                       \
        "vpop {s16-s31}\n"                                                                \
        "pop {r3-r11, pc}\n");                                                            \
  }

#define LOAD_NEIGHBOURS  \
  "vldmia r1, {s0-s3}\n" \
  "add r1, r7\n"
#define LOAD_PIXEL  \
  "vldr s0, [r1]\n" \
  "add r1, r7\n"
#define LOAD_APART  \
  "vldr s0, [r1]\n" \
  "add r1, r11\n"   \
  "vldr s1, [r1]\n" \
  "add r1, r12\n"   \
  "vldr s2, [r1]\n" \
  "add r1, r11\n"   \
  "vldr s3, [r1]\n" \
  "add r1, r7\n"
#define LOAD_WEIGHTS   \
  "vldmia r2!, {s4}\n" \
  "vldmia r3!, {s5}\n" \
  "vldmia r4!, {s6}\n" \
  "vldmia r5!, {s7}\n"
#define SKIP_WEIGHTS \
  "add r2, r6\n"     \
  "add r3, r6\n"     \
  "add r4, r6\n"     \
  "add r5, r6\n"
#define MULTIPLY_4X4       \
  "vfma.f32 s16, s0, s4\n" \
  "vfma.f32 s17, s1, s4\n" \
  "vfma.f32 s18, s2, s4\n" \
  "vfma.f32 s19, s3, s4\n" \
  "vfma.f32 s20, s0, s5\n" \
  "vfma.f32 s21, s1, s5\n" \
  "vfma.f32 s22, s2, s5\n" \
  "vfma.f32 s23, s3, s5\n" \
  "vfma.f32 s24, s0, s6\n" \
  "vfma.f32 s25, s1, s6\n" \
  "vfma.f32 s26, s2, s6\n" \
  "vfma.f32 s27, s3, s6\n" \
  "vfma.f32 s28, s0, s7\n" \
  "vfma.f32 s29, s1, s7\n" \
  "vfma.f32 s30, s2, s7\n" \
  "vfma.f32 s31, s3, s7\n"
#define MULTIPLY_4X1       \
  "vfma.f32 s16, s0, s4\n" \
  "vfma.f32 s17, s0, s5\n" \
  "vfma.f32 s18, s0, s6\n" \
  "vfma.f32 s19, s0, s7\n"
#define MULTIPLY_1X4       \
  "vfma.f32 s16, s0, s4\n" \
  "vfma.f32 s17, s1, s4\n" \
  "vfma.f32 s18, s2, s4\n" \
  "vfma.f32 s19, s3, s4\n"
#define START_4X1         \
  "vldr s16, [r6]\n"      \
  "vldr s17, [r6, #16]\n" \
  "vldr s18, [r6, #32]\n" \
  "vldr s19, [r6, #48]\n"
#define STORE_4X4          \
  "vstmia r6, {s16-s19}\n" \
  "add r6, r7\n"           \
  "vstmia r6, {s20-s23}\n" \
  "add r6, r7\n"           \
  "vstmia r6, {s24-s27}\n" \
  "add r6, r7\n"           \
  "vstmia r6, {s28-s31}\n"
#define STORE_4X1    \
  "vstr s16, [r6]\n" \
  "add r6, r7\n"     \
  "vstr s17, [r6]\n" \
  "add r6, r7\n"     \
  "vstr s18, [r6]\n" \
  "add r6, r7\n"     \
  "vstr s19, [r6]\n"

BLOCK(
    block_4x4_neighbours,
    "vldmia r6, {s16-s31}\n",
    LOAD_NEIGHBOURS,
    LOAD_WEIGHTS,
    MULTIPLY_4X4,
    SKIP_WEIGHTS,
    STORE_4X4)
BLOCK(
    block_4x4_apart,
    "vldmia r6, {s16-s31}\n",
    LOAD_APART,
    LOAD_WEIGHTS,
    MULTIPLY_4X4,
    SKIP_WEIGHTS,
    STORE_4X4)
BLOCK(block_4x1, START_4X1, LOAD_PIXEL, LOAD_WEIGHTS, MULTIPLY_4X1, SKIP_WEIGHTS, STORE_4X1)
BLOCK(
    block_1x4_neighbours,
    "vldmia r6, {s16-s19}\n",
    LOAD_NEIGHBOURS,
    "vldmia r2!, {s4}\n",
    MULTIPLY_1X4,
    "add r2, r6\n",
    "vstmia r6, {s16-s19}\n")
BLOCK(
    block_1x4_apart,
    "vldmia r6, {s16-s19}\n",
    LOAD_APART,
    "vldmia r2!, {s4}\n",
    MULTIPLY_1X4,
    "add r2, r6\n",
    "vstmia r6, {s16-s19}\n")
BLOCK(
    block_1x1,
    "vldr s16, [r6]\n",
    LOAD_PIXEL,
    "vldmia r2!, {s4}\n",
    "vfma.f32 s16, s0, s4\n",
    "add r2, r6\n",
    "vstr s16, [r6]\n")

#else

/// Computes kOut channels by kPixels pixels; writes the pixels of a channel next to each other.
template <int kOut, int kPixels, bool kApart>
void block_of(const Steps& steps, const float* in, const float* weight, float* out) {
  const int32_t walk = kApart ? 2 * steps.pixel + steps.turn : 0;
  const int32_t in_column = (steps.in_column + walk) / kBytes;
  const int32_t in_row = steps.in_row / kBytes + steps.columns * in_column;
  const int32_t weight_row = steps.weight_row / kBytes + steps.columns;
  const int32_t in_channel = steps.in_channel / kBytes + steps.rows * in_row;
  const int32_t weight_channel = steps.weight_channel / kBytes + steps.rows * weight_row;
  for (int32_t o = 0; o < kOut; ++o) {
    for (int32_t p = 0; p < kPixels; ++p) {
      const float* const pixel =
          in + (kApart ? ((p + 1) / 2 * steps.pixel + p / 2 * steps.turn) / kBytes : p);
      const float* const filter = weight + o * steps.weight_out / kBytes;
      float sum = steps.start[4 * o];
      for (int32_t channel = 0; channel < steps.channels; ++channel) {
        for (int32_t row = 0; row < steps.rows; ++row) {
          const float* const x = pixel + channel * in_channel + row * in_row;
          const float* const w = filter + channel * weight_channel + row * weight_row;
          for (int32_t column = 0; column < steps.columns; ++column) {
            sum += x[column * in_column] * w[column];
          }
        }
      }
      out[o * steps.out_channel / kBytes + p] = sum;
    }
  }
}

constexpr auto block_4x4_neighbours = block_of<4, 4, false>;
constexpr auto block_4x4_apart = block_of<4, 4, true>;
constexpr auto block_4x1 = block_of<4, 1, false>;
constexpr auto block_1x4_neighbours = block_of<1, 4, false>;
constexpr auto block_1x4_apart = block_of<1, 4, true>;
constexpr auto block_1x1 = block_of<1, 1, false>;

#endif

/// Computes rows by columns pixels that use the same taps, of four output channels or of one.
/// Neighbouring rows lie in_row and out_row apart, columns in_column and one.
void pixels(
    const Taps& taps,
    bool four_channels,
    const float* in,
    const float* weight,
    const float* start,
    float* out,
    int32_t rows,
    int32_t columns,
    int32_t in_row,
    int32_t in_column,
    int32_t out_row) {
  // Blocks of four pixels in a row, in a column, or in a square. The last of a line overlaps the
  // one before rather than being smaller.
  int32_t high = 1;
  int32_t wide = 1;
  if (columns >= 4) {
    wide = 4;
  } else if (rows >= 4) {
    high = 4;
  } else if (rows >= 2 && columns >= 2) {
    high = 2;
    wide = 2;
  }
  const int32_t in_pixel = wide > 1 ? in_column : in_row;
  const int32_t in_turn = wide == 2 ? in_row - in_column : in_pixel;
  Steps steps = make_steps(taps, start, wide * high, in_pixel, in_turn);
  auto block = four_channels ? block_4x1 : block_1x1;
  if (wide * high == 4) {
    if (in_pixel == 1 && in_turn == 1) {
      block = four_channels ? block_4x4_neighbours : block_1x4_neighbours;
    } else {
      block = four_channels ? block_4x4_apart : block_1x4_apart;
    }
  }
  // Pixels that are no neighbours in the output are put there afterwards.
  const bool scatter = high > 1;
  const int32_t out_pixel = wide > 1 ? 1 : out_row;
  const int32_t out_turn = wide == 2 ? out_row - 1 : out_pixel;
  float sums[16];
  if (scatter) {
    steps.out_channel = 4 * kBytes;
  }
  for (int32_t y = 0; y < rows; y += high) {
    y = min(y, rows - high);
    for (int32_t x = 0; x < columns; x += wide) {
      x = min(x, columns - wide);
      float* to = out + y * out_row + x;
      block(steps, in + y * in_row + x * in_column, weight, scatter ? sums : to);
      if (scatter) {
        const float* const end = sums + (four_channels ? 16 : 4);
        for (const float* sum = sums; sum < end; sum += 4, to += taps.out_channel) {
          float* pixel = to;
          *pixel = sum[0];
          pixel += out_pixel;
          *pixel = sum[1];
          pixel += out_turn;
          *pixel = sum[2];
          pixel += out_pixel;
          *pixel = sum[3];
        }
      }
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
      float* const to = out + y.begin * width.out + x.begin;
      const int32_t rows = y.end - y.begin;
      const int32_t columns = x.end - x.begin;
      if (taps.rows > 0 && taps.columns > 0 && taps.channels > 0) {
        merge_loops(taps);
        pixels(
            taps,
            four_channels,
            in + y.in * width.in + x.in,
            weight + y.first_tap * width.kernel + x.first_tap,
            start,
            to,
            rows,
            columns,
            in_vertical,
            width.stride,
            width.out);
      } else {
        // Padding alone; these ranges are single pixels, unless there are no channels.
        for (int32_t i = 0; i < (four_channels ? 4 : 1); ++i) {
          for (int32_t row = 0; row < rows; ++row) {
            for (int32_t column = 0; column < columns; ++column) {
              to[i * taps.out_channel + row * width.out + column] = start[4 * i];
            }
          }
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
