#include "kernels/portable/convolution.h"

#include <cstddef>

#include "kernels/portable/depthwise.h"

namespace torch::executor::native {

namespace {

inline int32_t min(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/**
 * The products that make one output, as three nested loops, with the distances
 * between neighbours.
 */
struct Taps {
  int32_t channels;
  int32_t rows;
  int32_t columns;
  // Distances in the input; between two lines of it, `in_line`.
  int32_t in_line;
  int32_t in_channel;
  int32_t in_row;
  int32_t in_column;
  // Distances in the weights; of two output channels, `weight_out`.
  int32_t weight_channel;
  int32_t weight_row;
  int32_t weight_column;
  int32_t weight_out;
  // Distances in the output.
  int32_t out_channel;
  int32_t out_row;
  int32_t out_column;
};

/// Turns outer loops of one pass into passes of the inner ones; with `even`, only where columns
/// stay neighbours in the weights.
void merge_loops(Taps& taps, bool even) {
  for (int32_t i = 0; i < 2; ++i) {
    if (taps.columns == 1 && (!even || taps.weight_row == 1)) {
      taps.columns = taps.rows;
      taps.in_column = taps.in_row;
      taps.weight_column = taps.weight_row;
      taps.rows = 1;
      taps.weight_row = taps.weight_channel;
    }
    if (taps.rows == 1) {
      taps.rows = taps.channels;
      taps.in_row = taps.in_channel;
      taps.weight_row = taps.weight_channel;
      taps.channels = 1;
    }
  }
}

/**
 * The strides of the blocks of a range of outputs: those of Taps, in bytes and as steps from the
 * end of one loop to the start of the next. The assembler code relies on the layout.
 */
struct Steps {
  int32_t in_column;
  int32_t in_row;
  int32_t weight_row;
  int32_t rows;
  // The distances from the first of four pixels to the second, and from the third to the last; and
  // from the second to the third.
  int32_t pixel;
  int32_t turn;
  int32_t channels;
  // The distance between the weights of two output channels.
  int32_t weight_out;
  int32_t columns;
  int32_t in_channel;
  int32_t weight_channel;
  // The initial sums: four equal ones for each of the output channels.
  const float* start;
  // The distance between two channels of the output.
  int32_t out_channel;
  // The distance from the weight of the last output channel to the next column's of the first.
  int32_t weight_next;
};

constexpr int32_t kBytes = sizeof(float);

/// @param[in] out_channels, pixels How many of both a block has: the walk over them is part of a
///     column's step.
Steps make_steps(
    const Taps& taps,
    const float* start,
    int32_t out_channels,
    int32_t pixels,
    int32_t in_pixel,
    int32_t in_turn) {
  Steps steps;
  const bool walks = pixels > 1 && (in_pixel != 1 || in_turn != 1);
  steps.in_column = (taps.in_column - (walks ? 2 * in_pixel + in_turn : 0)) * kBytes;
  steps.in_row = (taps.in_row - taps.columns * taps.in_column) * kBytes;
  steps.weight_row = (taps.weight_row - taps.columns * taps.weight_column) * kBytes;
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
  steps.weight_next = (taps.weight_column - (out_channels - 1) * taps.weight_out) * kBytes;
  return steps;
}

#if defined(__ARM_FEATURE_FMA) && defined(__thumb__)

// The compiler would keep pointers to weights on the stack in the inner loops below. In assembler
// they take, per multiply-accumulate, 1.5 instructions instead of 2.3 (four channels by four
// adjacent pixels), 1.9 (by four other pixels), 3 instead of 6 (by one pixel), 2.25 instead of 4.3
// (one channel by four adjacent pixels). If columns are not adjacent in the weights, it is a
// quarter more.
//
// r0 steps, r1 input, r2 weights of the first of four channels, r3-r5 of the others (or r3
// weight_out, r4 weight_next), r6 scratch, r7 in_column, r8 in_row, r9 weight_row, r10 rows, r11
// pixel, r12 turn, lr channels; s0-s3 inputs, s4-s7 weights, s16-s31 sums.
static_assert(offsetof(Steps, in_column) == 0 && offsetof(Steps, channels) == 24);
static_assert(offsetof(Steps, rows) == 12 && offsetof(Steps, weight_out) == 28);
static_assert(offsetof(Steps, columns) == 32 && offsetof(Steps, in_channel) == 36);
static_assert(offsetof(Steps, weight_channel) == 40 && offsetof(Steps, start) == 44);
static_assert(offsetof(Steps, out_channel) == 48 && offsetof(Steps, weight_next) == 52);

#define BLOCK(name, load_start, set_up, load_inputs, load_weights, multiply, skip_weights, store) \
  __attribute__((naked)) void name(const Steps&, const float*, const float*, float*) {            \
    __asm__ volatile(                                                                             \
        "push {r3-r11, lr}\n"                                                                     \
        "vpush {s16-s31}\n"                                                                       \
        "ldr r6, [r0, #44]\n" load_start "ldmia r0, {r7-r12, lr}\n" set_up                        \
        "1:\n"                                                                                    \
        "ldr r6, [r0, #32]\n"                                                                     \
        "2:\n" load_inputs load_weights multiply                                                  \
        "subs r6, #1\n"                                                                           \
        "bne 2b\n"                                                                                \
        "add r1, r8\n"                                                                            \
        "mov r6, r9\n" skip_weights                                                               \
        "subs r10, #1\n"                                                                          \
        "bne 1b\n"                                                                                \
        "subs lr, #1\n"                                                                           \
        "beq 3f\n"                                                                                \
        "ldr r6, [r0, #36]\n"                                                                     \
        "add r1, r6\n"                                                                            \
        "ldr r6, [r0, #40]\n" skip_weights                                                        \
        "ldr r10, [r0, #12]\n"                                                                    \
        "b 1b\n"                                                                                  \
        "3:\n"                                                                                    \
        "ldr r6, [sp, #64]\n"                                                                     \
        "ldr r7, [r0, #48]\n" store                                                               \
        "vpop {s16-s31}\n"                                                                        \
        "pop {r3-r11, pc}\n");                                                                    \
  }

#define SET_UP_ALONG    \
  "ldr r6, [r0, #28]\n" \
  "add r3, r2, r6\n"    \
  "add r4, r3, r6\n"    \
  "add r5, r4, r6\n"
#define SET_UP_ACROSS   \
  "ldr r3, [r0, #28]\n" \
  "ldr r4, [r0, #52]\n"
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
#define LOAD_WEIGHTS_ALONG \
  "vldmia r2!, {s4}\n"     \
  "vldmia r3!, {s5}\n"     \
  "vldmia r4!, {s6}\n"     \
  "vldmia r5!, {s7}\n"
#define LOAD_WEIGHTS_ACROSS \
  "vldr s4, [r2]\n"         \
  "add r2, r3\n"            \
  "vldr s5, [r2]\n"         \
  "add r2, r3\n"            \
  "vldr s6, [r2]\n"         \
  "add r2, r3\n"            \
  "vldr s7, [r2]\n"         \
  "add r2, r4\n"
#define LOAD_WEIGHT_ALONG "vldmia r2!, {s4}\n"
#define LOAD_WEIGHT_ACROSS \
  "vldr s4, [r2]\n"        \
  "add r2, r4\n"
#define SKIP_WEIGHTS_ALONG \
  "add r2, r6\n"           \
  "add r3, r6\n"           \
  "add r4, r6\n"           \
  "add r5, r6\n"
#define SKIP_WEIGHTS_ACROSS "add r2, r6\n"
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

// The blocks for weights whose columns are adjacent (ALONG), and for others (ACROSS).
#define BLOCKS(suffix, DIRECTION)    \
  BLOCK(                             \
      block_4x4_neighbours_##suffix, \
      "vldmia r6, {s16-s31}\n",      \
      SET_UP_##DIRECTION,            \
      LOAD_NEIGHBOURS,               \
      LOAD_WEIGHTS_##DIRECTION,      \
      MULTIPLY_4X4,                  \
      SKIP_WEIGHTS_##DIRECTION,      \
      STORE_4X4)                     \
  BLOCK(                             \
      block_4x4_apart_##suffix,      \
      "vldmia r6, {s16-s31}\n",      \
      SET_UP_##DIRECTION,            \
      LOAD_APART,                    \
      LOAD_WEIGHTS_##DIRECTION,      \
      MULTIPLY_4X4,                  \
      SKIP_WEIGHTS_##DIRECTION,      \
      STORE_4X4)                     \
  BLOCK(                             \
      block_4x1_##suffix,            \
      START_4X1,                     \
      SET_UP_##DIRECTION,            \
      LOAD_PIXEL,                    \
      LOAD_WEIGHTS_##DIRECTION,      \
      MULTIPLY_4X1,                  \
      SKIP_WEIGHTS_##DIRECTION,      \
      STORE_4X1)                     \
  BLOCK(                             \
      block_1x4_neighbours_##suffix, \
      "vldmia r6, {s16-s19}\n",      \
      SET_UP_##DIRECTION,            \
      LOAD_NEIGHBOURS,               \
      LOAD_WEIGHT_##DIRECTION,       \
      MULTIPLY_1X4,                  \
      SKIP_WEIGHTS_ACROSS,           \
      "vstmia r6, {s16-s19}\n")      \
  BLOCK(                             \
      block_1x4_apart_##suffix,      \
      "vldmia r6, {s16-s19}\n",      \
      SET_UP_##DIRECTION,            \
      LOAD_APART,                    \
      LOAD_WEIGHT_##DIRECTION,       \
      MULTIPLY_1X4,                  \
      SKIP_WEIGHTS_ACROSS,           \
      "vstmia r6, {s16-s19}\n")      \
  BLOCK(                             \
      block_1x1_##suffix,            \
      "vldr s16, [r6]\n",            \
      SET_UP_##DIRECTION,            \
      LOAD_PIXEL,                    \
      LOAD_WEIGHT_##DIRECTION,       \
      "vfma.f32 s16, s0, s4\n",      \
      SKIP_WEIGHTS_ACROSS,           \
      "vstr s16, [r6]\n")

BLOCKS(along, ALONG)
BLOCKS(across, ACROSS)

#define BLOCK_TABLE(suffix)                                                                       \
  {                                                                                               \
    {{block_1x1_##suffix, nullptr}, {block_1x4_apart_##suffix, block_1x4_neighbours_##suffix}}, { \
      {block_4x1_##suffix, nullptr}, {                                                            \
        block_4x4_apart_##suffix, block_4x4_neighbours_##suffix                                   \
      }                                                                                           \
    }                                                                                             \
  }

#else

/// Computes kOut channels by kPixels pixels; writes the pixels of a channel next to each other.
template <int kOut, int kPixels, bool kApart>
void block_of(const Steps& steps, const float* in, const float* weight, float* out) {
  const int32_t walk = kApart ? 2 * steps.pixel + steps.turn : 0;
  const int32_t in_column = (steps.in_column + walk) / kBytes;
  const int32_t in_row = steps.in_row / kBytes + steps.columns * in_column;
  const int32_t weight_out = steps.weight_out / kBytes;
  const int32_t weight_column = steps.weight_next / kBytes + (kOut - 1) * weight_out;
  const int32_t weight_row = steps.weight_row / kBytes + steps.columns * weight_column;
  const int32_t in_channel = steps.in_channel / kBytes + steps.rows * in_row;
  const int32_t weight_channel = steps.weight_channel / kBytes + steps.rows * weight_row;
  for (int32_t o = 0; o < kOut; ++o) {
    for (int32_t p = 0; p < kPixels; ++p) {
      const float* const pixel =
          in + (kApart ? ((p + 1) / 2 * steps.pixel + p / 2 * steps.turn) / kBytes : p);
      const float* const filter = weight + o * weight_out;
      float sum = steps.start[4 * o + p];
      for (int32_t channel = 0; channel < steps.channels; ++channel) {
        for (int32_t row = 0; row < steps.rows; ++row) {
          const float* const x = pixel + channel * in_channel + row * in_row;
          const float* const w = filter + channel * weight_channel + row * weight_row;
          for (int32_t column = 0; column < steps.columns; ++column) {
            sum += x[column * in_column] * w[column * weight_column];
          }
        }
      }
      out[o * steps.out_channel / kBytes + p] = sum;
    }
  }
}

#define BLOCK_TABLE(suffix)                                                              \
  {                                                                                      \
    {{block_of<1, 1, false>, nullptr}, {block_of<1, 4, true>, block_of<1, 4, false>}}, { \
      {block_of<4, 1, false>, nullptr}, {                                                \
        block_of<4, 4, true>, block_of<4, 4, false>                                      \
      }                                                                                  \
    }                                                                                    \
  }

#endif

using Block = void (*)(const Steps&, const float*, const float*, float*);

/// Table of blocks: of four output channels or one, four pixels or one, neighbours in the input or
/// not.
struct Blocks {
  // True if the columns of the taps must be neighbours in the weights.
  bool along;
  Block of[2][2][2];
};

constexpr Blocks kBlocksAlong = {true, BLOCK_TABLE(along)};
constexpr Blocks kBlocksAcross = {false, BLOCK_TABLE(across)};

/// The addresses from which the sums of a block start, and to which they go.
struct Sums {
  const float* bias;
  // True if the sums start from the output's contents instead of the bias.
  bool add;
  float* out;
};

/// Returns the offset of pixel `index` of a block of four.
inline int32_t pixel_offset(int32_t index, int32_t pixel, int32_t turn) {
  return (index + 1) / 2 * pixel + index / 2 * turn;
}

/// Computes rows by columns pixels that use the same taps, of four output channels or of one.
/// Adjacent rows are in_row apart in the input, columns in_column.
void pixels(
    const Blocks& blocks,
    const Taps& taps,
    bool four_channels,
    const float* in,
    const float* weight,
    const Sums& sums,
    int32_t rows,
    int32_t columns,
    int32_t in_row,
    int32_t in_column) {
  // Blocks of four pixels in a row, in a column, or in a square. The last block of a line overlaps
  // the previous one rather than being smaller, unless sums continue the output's contents.
  int32_t high = 1;
  int32_t wide = 1;
  const int32_t overlap = sums.add ? 3 : 0;
  if (columns >= 4 && (columns & overlap) == 0) {
    wide = 4;
  } else if (rows >= 4 && (rows & overlap) == 0) {
    high = 4;
  } else if (!sums.add && rows >= 2 && columns >= 2) {
    high = 2;
    wide = 2;
  }
  const int32_t channels = four_channels ? 4 : 1;
  const int32_t count = wide * high;
  const int32_t in_pixel = wide > 1 ? in_column : in_row;
  const int32_t in_turn = wide == 2 ? in_row - in_column : in_pixel;
  const int32_t out_pixel = wide > 1 ? taps.out_column : taps.out_row;
  const int32_t out_turn = wide == 2 ? taps.out_row - taps.out_column : out_pixel;
  float start[16] = {};
  if (sums.bias != nullptr) {
    for (int32_t i = 0; i < 4 * channels; ++i) {
      start[i] = sums.bias[i / 4];
    }
  }
  Steps steps = make_steps(taps, start, channels, count, in_pixel, in_turn);
  const Block block =
      blocks.of[four_channels][count == 4][count == 4 && in_pixel == 1 && in_turn == 1];
  // Pixels that are no neighbours in the output are put there afterwards.
  const bool scatter = count == 4 && (out_pixel != 1 || out_turn != 1);
  float result[16];
  if (scatter) {
    steps.out_channel = 4 * kBytes;
  }
  for (int32_t y = 0; y < rows; y += high) {
    y = min(y, rows - high);
    for (int32_t x = 0; x < columns; x += wide) {
      x = min(x, columns - wide);
      float* to = sums.out + y * taps.out_row + x * taps.out_column;
      if (sums.add) {
        for (int32_t i = 0; i < channels; ++i) {
          for (int32_t j = 0; j < count; ++j) {
            start[4 * i + j] = to[i * taps.out_channel + pixel_offset(j, out_pixel, out_turn)];
          }
        }
      }
      block(steps, in + y * in_row + x * in_column, weight, scatter ? result : to);
      if (scatter) {
        const float* const end = result + 4 * channels;
        for (const float* sum = result; sum < end; sum += 4, to += taps.out_channel) {
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

/// Neighbouring outputs along an axis that use the same part of the kernel.
struct Range {
  int32_t begin;
  int32_t end;
  int32_t first_tap;
  int32_t taps;
  // The input of the first tap of the first output.
  int32_t in;
};

/// Returns the range that starts at output `begin`: all outputs whose kernels are inside the input,
/// or one.
Range range_at(const Window& axis, int32_t begin) {
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
  if (axis.kernel == 0) {
    range.end = axis.out;
  } else if (range.taps == axis.kernel) {
    const int32_t reach = room - (axis.kernel - 1) * axis.dilation;
    range.end = min(axis.out, begin + reach / axis.stride + 1);
  }
  return range;
}

/// Computes all pixels of four output channels, or of one. `in_vertical`: the distance in the input
/// between adjacent rows of the output.
void plane(
    const Blocks& blocks,
    const Window& height,
    const Window& width,
    const Taps& all,
    bool four_channels,
    const float* in,
    const float* weight,
    const Sums& sums,
    int32_t in_vertical) {
  const bool depthwise_kernel = blocks.along && all.channels == 1 && !four_channels && !sums.add &&
      is_depthwise(height, width);
  for (int32_t top = 0; top < height.out;) {
    const Range y = range_at(height, top);
    for (int32_t left = 0; left < width.out;) {
      const Range x = range_at(width, left);
      Taps taps = all;
      taps.rows = y.taps;
      taps.columns = x.taps;
      const Sums part = {
          sums.bias, sums.add, sums.out + y.begin * taps.out_row + x.begin * taps.out_column};
      const int32_t rows = y.end - y.begin;
      const int32_t columns = x.end - x.begin;
      if (depthwise_kernel && y.taps == 3 && x.taps == 3) {
        depthwise(
            height.stride,
            in + y.in * all.in_line + x.in,
            weight,
            sums.bias == nullptr ? 0.0f : *sums.bias,
            part.out,
            rows,
            columns,
            all.in_line,
            width.stride,
            taps.out_row);
      } else if (taps.rows > 0 && taps.columns > 0 && taps.channels > 0) {
        merge_loops(taps, blocks.along);
        pixels(
            blocks,
            taps,
            four_channels,
            in + y.in * all.in_line + x.in,
            weight + y.first_tap * all.weight_row + x.first_tap * all.weight_column,
            part,
            rows,
            columns,
            in_vertical,
            width.stride);
      } else if (!sums.add) {
        // There is only padding.
        for (int32_t i = 0; i < (four_channels ? 4 : 1); ++i) {
          const float value = sums.bias == nullptr ? 0.0f : sums.bias[i];
          for (int32_t row = 0; row < rows; ++row) {
            for (int32_t column = 0; column < columns; ++column) {
              part.out[i * taps.out_channel + row * taps.out_row + column * taps.out_column] =
                  value;
            }
          }
        }
      }
      left = x.end;
    }
    top = y.end;
  }
}

/// One product of planes; the axes' strides are 1 in those from a transposed one.
using PlaneFunction = void (*)(
    const Window& height,
    const Window& width,
    const Taps& taps,
    bool four_channels,
    const float* in,
    const float* weight,
    const Sums& sums,
    int32_t in_vertical);

void plane_along(
    const Window& height,
    const Window& width,
    const Taps& taps,
    bool four_channels,
    const float* in,
    const float* weight,
    const Sums& sums,
    int32_t in_vertical) {
  plane(kBlocksAlong, height, width, taps, four_channels, in, weight, sums, in_vertical);
}

int32_t greatest_common_divisor(int32_t a, int32_t b) {
  while (b != 0) {
    const int32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// The outputs along an axis of a transposed convolution whose distances are multiples of the
/// stride: a convolution of stride 1 with some of the taps, last to first.
struct Phase {
  // Its stride is 1.
  Window window;
  int32_t first_out;
  int32_t last_tap;
  // The distance between neighbouring taps.
  int32_t tap_step;
};

/// The phase of output `first_out`, which is below the stride. Output o and tap k meet at input i
/// where o + padding = i * stride + k * dilation.
Phase phase_of(const Window& axis, int32_t first_out) {
  Phase phase;
  const int32_t position = first_out + axis.padding;
  const int32_t divisor = greatest_common_divisor(axis.stride, axis.dilation);
  phase.first_out = first_out;
  phase.tap_step = axis.stride / divisor;
  phase.window = axis;
  phase.window.stride = 1;
  phase.window.dilation = axis.dilation / divisor;
  phase.window.out = first_out < axis.out ? (axis.out - 1 - first_out) / axis.stride + 1 : 0;
  int32_t tap = 0;
  while (tap < min(phase.tap_step, axis.kernel) &&
         (position - tap * axis.dilation) % axis.stride != 0) {
    ++tap;
  }
  const bool has_taps = tap < phase.tap_step && tap < axis.kernel;
  phase.window.kernel = has_taps ? (axis.kernel - 1 - tap) / phase.tap_step + 1 : 0;
  phase.last_tap = tap + (phase.window.kernel - 1) * phase.tap_step;
  phase.window.padding = has_taps ? (phase.last_tap * axis.dilation - position) / axis.stride : 0;
  return phase;
}

void plane_across(
    const Window& height,
    const Window& width,
    const Taps& taps,
    bool four_channels,
    const float* in,
    const float* weight,
    const Sums& sums,
    int32_t /*in_vertical*/) {
  // Phases without outputs are none.
  for (int32_t top = 0; top < min(height.stride, height.out); ++top) {
    const Phase y = phase_of(height, top);
    for (int32_t left = 0; left < min(width.stride, width.out); ++left) {
      const Phase x = phase_of(width, left);
      Taps phase = taps;
      phase.in_row = y.window.inner_dilation() * taps.in_line;
      phase.in_column = x.window.dilation;
      phase.weight_row = y.window.kernel > 1 ? -y.tap_step * taps.weight_row : 0;
      phase.weight_column = -x.tap_step * taps.weight_column;
      phase.out_row = min(height.stride, height.out) * taps.out_row;
      phase.out_column = width.stride * taps.out_column;
      plane(
          kBlocksAcross,
          y.window,
          x.window,
          phase,
          four_channels,
          in,
          weight + y.last_tap * taps.weight_row + x.last_tap * taps.weight_column,
          {sums.bias, sums.add, sums.out + top * taps.out_row + left * taps.out_column},
          taps.in_line);
    }
  }
}

void convolve(
    PlaneFunction plane_of,
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape) {
  const Window& depth = shape.axes[0];
  Window height = shape.axes[1];
  Window width = shape.axes[2];
  const int32_t in_plane = height.in * width.in;
  const int32_t out_plane = height.out * width.out;
  const int32_t kernel_plane = height.kernel * width.kernel;
  const int32_t kernel = depth.kernel * kernel_plane;
  if (kernel_plane == 1 && in_plane == out_plane && height.stride == 1 && width.stride == 1 &&
      height.padding == 0 && width.padding == 0) {
    // Rows of pixels need not be told apart.
    width.in = in_plane;
    width.out = out_plane;
    height.in = 1;
    height.out = 1;
  }
  Taps taps;
  taps.channels = shape.in_channels;
  taps.in_channel = depth.in * in_plane;
  taps.in_line = width.in;
  taps.in_row = height.inner_dilation() * width.in;
  taps.in_column = width.dilation;
  taps.weight_channel = shape.transposed ? shape.out_channels * kernel : kernel;
  taps.weight_row = width.kernel;
  taps.weight_column = 1;
  taps.weight_out = shape.transposed ? kernel : shape.in_channels * kernel;
  taps.out_channel = depth.out * out_plane;
  taps.out_row = width.out;
  taps.out_column = 1;
  const int32_t in_vertical = height.inner_stride() * width.in;
  const bool four_channels = shape.out_channels >= 4;
  const int32_t group_weights = shape.in_channels * shape.out_channels * kernel;
  for (int32_t image = 0; image < shape.batch; ++image) {
    for (int32_t group = 0; group < shape.groups; ++group) {
      const float* const group_weight = weight + group * group_weights;
      for (int32_t done = 0; done < shape.out_channels;) {
        const int32_t first = four_channels ? min(done, shape.out_channels - 4) : done;
        const float* const from_weight = group_weight + first * taps.weight_out;
        const float* const from_bias =
            bias == nullptr ? nullptr : bias + group * shape.out_channels + first;
        for (int32_t z = 0; z < depth.out; ++z) {
          Sums sums = {from_bias, false, out + first * taps.out_channel + z * out_plane};
          for (int32_t tap = 0; tap < depth.kernel; ++tap) {
            const int32_t slice =
                shape.transposed ? transposed_position(depth, z, tap) : position(depth, z, tap);
            if (slice < 0 || slice >= depth.in) {
              continue;
            }
            const float* const from = in + slice * in_plane;
            plane_of(
                height,
                width,
                taps,
                four_channels,
                from,
                from_weight + tap * kernel_plane,
                sums,
                in_vertical);
            sums.add = true;
          }
          if (!sums.add) {
            // There is no input: a convolution without input channels.
            Taps none = taps;
            none.channels = 0;
            plane_of(height, width, none, four_channels, in, from_weight, sums, in_vertical);
          }
        }
        done = first + (four_channels ? 4 : 1);
      }
      in += shape.in_channels * depth.in * in_plane;
      out += shape.out_channels * depth.out * out_plane;
    }
  }
}

} // namespace

void convolution(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape) {
  convolve(plane_along, in, weight, bias, out, shape);
}

void transposed_convolution(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    const ConvolutionShape& shape) {
  convolve(plane_across, in, weight, bias, out, shape);
}

} // namespace torch::executor::native
