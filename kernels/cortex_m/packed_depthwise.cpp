#include "kernels/cortex_m/packed_depthwise.h"

#include <cstring>

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/channelwise.h"
#include "kernels/cortex_m/packed_scale.h"
#include "kernels/util/aligned.h"

#ifdef __ARM_FEATURE_MVE
#include "kernels/cortex_m/packed_mve.h"
#endif

namespace torch::executor::native::cortex_m {

namespace {

/// The words of a column of four rows: the upper two rows of a channel, then the lower two, of each
/// of four channels.
[[maybe_unused]] constexpr int32_t kColumnWords = 8;

/// The largest stride of three_by_three(): the stride times the size of a column must fit in a
/// byte.
constexpr int32_t kMaxColumnStride = 7;

/// Outputs of a row of which depthwise_columns() expands the inputs at once, where the window is
/// another than three by three.
[[maybe_unused]] constexpr int32_t kPairOutputs = 32;

/// Returns whether a depthwise layer, one for DSP, has windows of three by three that
/// three_by_three() takes.
[[maybe_unused]] inline bool is_three_by_three(const PackedLayer& layer) {
  return layer.kernel[0] == 3 && layer.kernel[1] == 3 && layer.is_wide == 0 &&
      layer.dilation[0] == 1 && layer.dilation[1] == 1 && layer.stride[1] <= kMaxColumnStride &&
      layer.channels == layer.in_channels && layer.channels <= 0xffff;
}

#ifndef __ARM_FEATURE_MVE

#ifndef __ARM_FEATURE_DSP

/// Adds four channels' products with one element of a depthwise kernel.
void multiply_group(
    const int8_t* x,
    const int8_t* weights,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  s0 = wrapping_add(s0, x[0] * weights[0]);
  s1 = wrapping_add(s1, x[1] * weights[1]);
  s2 = wrapping_add(s2, x[2] * weights[2]);
  s3 = wrapping_add(s3, x[3] * weights[3]);
}

/// Adds the products of four channels with `count` elements of a depthwise kernel, at least one,
/// whose inputs are `step` apart.
ET_INLINE void multiply_row(
    const int8_t* x,
    int32_t step,
    int32_t count,
    const int8_t*& weights,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  for (; count > 0; --count) {
    multiply_group(x, weights, s0, s1, s2, s3);
    x += step;
    weights += 4;
  }
}

#endif

#ifdef __ARM_FEATURE_DSP

/// Four channels of a depthwise convolution of three by three, as columns_to_outputs() loads them:
/// for each the weights of the upper two rows, and of the lower two, by columns, and the shift with
/// the bytes from one position's columns to the next one's. Weights and biases are doubled.
struct ColumnChannels {
  struct Channel {
    uint32_t upper[3];
    uint32_t lower[3];
    int32_t bias;
    int32_t multiplier;
    uint32_t shift;
  };
  Channel channels[4];

  ColumnChannels(const PackedParts& parts, int32_t channel, const int8_t* weights) {
    const uint32_t step = 4 * kColumnWords * parts.layer->stride[1];
    for (Channel& to : channels) {
      for (int32_t i = 0; i < 3; ++i) {
        to.upper[i] = two_halves(2 * weights[4 * i], 2 * weights[4 * i + 12]);
        to.lower[i] = two_halves(2 * weights[4 * i + 12], 2 * weights[4 * i + 24]);
      }
      to.bias = 2 * parts.bias[channel];
      to.multiplier = parts.multipliers[channel];
      // Limits the number of bits to that of a shift, even in a corrupted program.
      to.shift = static_cast<uint32_t>(parts.shifts[channel] & 31) | step << 8;
      ++channel;
      ++weights;
    }
  }
};

/// Writes pairs of two rows to columns, at least one: four channels, `step` bytes from those of the
/// next column.
ET_INLINE void expand_columns(
    const int8_t* first,
    int32_t first_step,
    const int8_t* second,
    int32_t second_step,
    int32_t columns,
    uint32_t* to) {
  __asm__ volatile(
      ".p2align 2\n"
      "1:\n"
      "ldr r4, [%[first]]; ldr r6, [%[second]]; add %[first], %[first_step]\n"
      "add %[second], %[second_step]; pkhbt r8, r4, r6, lsl #16; pkhtb r6, r6, r4, asr #16\n"
      "sxtb16 r4, r8, ror #8; sxtb16 r8, r8; str r4, [%[to], #8]; sxtb16 r4, r6\n"
      "sxtb16 r6, r6, ror #8; str r4, [%[to], #16]; str r6, [%[to], #24]; str r8, [%[to]], #32\n"
      "subs %[columns], #1; bgt 1b\n"
      : [first] "+r"(first), [second] "+r"(second), [to] "+r"(to), [columns] "+r"(columns)
      : [first_step] "r"(first_step), [second_step] "r"(second_step)
      : "memory", "cc", "r4", "r6", "r8");
}

// After the sums, the rest of Scale::apply() follows, with the names of registers; `output` is that
// of rows_to_outputs().
#define SCALED(sum, shift, output)  \
  "add " sum ", " sum ", " sum      \
  ", asr #31\n"                     \
  "asr " sum ", " sum ", " shift    \
  "\n"                              \
  "sxtah " sum ", " sum ", " output \
  ", ror #16\n"                     \
  "ssat " sum ", #8, " sum ", asr #1\n"

/// Computes a row of outputs of a group's channels, from `first` on, of a depthwise convolution of
/// three by three.
///
/// @param[in] output What Scale::addend is, above the number of all channels.
__attribute__((noinline)) void row_to_outputs(
    const ColumnChannels& group,
    int32_t first,
    const uint32_t* columns,
    int32_t width,
    uint32_t output,
    int8_t* out) {
  const ColumnChannels::Channel* channel = group.channels + first;
  const ColumnChannels::Channel* const last = group.channels + 4;
  columns += 2 * first;
  out += first;
  const int32_t odd = width & 1;
  const uint32_t* end = columns + width * static_cast<int32_t>((channel->shift >> 8) / 4);
  int32_t bias = 0;
  uint32_t x, to, e, f, sum, shift;
  // 20 instructions per output.
#define OUTPUT \
  "ldr %[sum], " IN_MEMORY(bias, 6) "\n" \
  "ldr %[e], [%[x]]\n"         \
  "ldr %[f], [%[x], #4]\n"         \
  "smlad %[sum], %[e], r4, %[sum]\n"     \
  "smlabt %[sum], %[f], r8, %[sum]\n" \
  "ldrd %[e], %[f], [%[x], #32]\n"    \
  "smlad %[sum], %[e], r5, %[sum]\n"  \
  "smlabt %[sum], %[f], r9, %[sum]\n" \
  "ldrd %[e], %[f], [%[x], #64]\n"    \
  "smlad %[sum], %[e], r6, %[sum]\n"  \
  "smlabt %[sum], %[f], r10, %[sum]\n" \
  "uxtab %[x], %[x], %[shift], ror #8\n" \
  "smmulr %[sum], %[sum], r11\n" SCALED("%[sum]", "%[shift]", "%[output]") \
  "strb %[sum], [%[to]]\n"      \
  "uxtah %[to], %[to], %[output]\n"
  MEMORY_WORDS(
      e,
      memory_word(channel),
      memory_word(columns),
      memory_word(out),
      memory_word(end),
      memory_word(last),
      memory_word(odd),
      memory_word(bias),
      0);
  __asm__ volatile(
      PUSH_MEMORY("7, 6, 5, 4, 3, 2, 1, 0", "%[e]", "%[f]") "3:\n"
      "ldr %[e], " IN_MEMORY(channel, 0) "\n"
      "ldr %[x], " IN_MEMORY(columns, 1) "\n"
      "ldr %[to], " IN_MEMORY(out, 2) "\n"
      "ldmia %[e]!, {r4, r5, r6, r8, r9, r10}; ldr %[f], [%[e]], #4; ldr r11, [%[e]], #4\n"
      "ldr %[shift], [%[e]], #4\n"
      "str %[f], " IN_MEMORY(bias, 6) "\n"
      "str %[e], " IN_MEMORY(channel, 0) "\n"
      "add %[e], %[x], #8; add %[f], %[to], #1\n"
      "str %[e], " IN_MEMORY(columns, 1) "\n"
      "str %[f], " IN_MEMORY(out, 2) "\n"
      "ldr %[e], " IN_MEMORY(odd, 5) "\n"
      "cmp %[e], #0; bne 2f\n"
      ".p2align 2\n"
      "1:\n" OUTPUT "2:\n" OUTPUT
      "ldr %[e], " IN_MEMORY(end, 3) "\n"
      "cmp %[x], %[e]; bne 1b; add %[e], #8\n"
      "str %[e], " IN_MEMORY(end, 3) "\n"
      "ldr %[e], " IN_MEMORY(channel, 0) "\n"
      "ldr %[f], " IN_MEMORY(last, 4) "\n"
      "cmp %[e], %[f]\n"
      "bne 3b\n" POP_MEMORY(8)
      : [x] "=&r"(x),
        [to] "=&r"(to),
        [e] MEMORY_ADDRESS(e),
        [f] "=&r"(f),
        [sum] "=&r"(sum),
        [shift] "=&r"(shift) WITH_GCC(, [channel] "+m"(channel),
        [columns] "+m"(columns),
        [out] "+m"(out),
        [end] "+m"(end),
        [bias] "+m"(bias))
      : WITH_GCC([last] "m"(last), [odd] "m"(odd), ) [output] "r"(output)
      : "memory", "cc", "r4", "r5", "r6", "r8", "r9", "r10", "r11");
#undef OUTPUT
}

/// Does the same as row_to_outputs() for two rows of outputs, `row_step` bytes apart, whose windows
/// are neighbours in both directions.
__attribute__((noinline)) void rows_to_outputs(
    const ColumnChannels& group,
    int32_t first,
    const uint32_t* columns,
    int32_t width,
    uint32_t output,
    int32_t row_step,
    int8_t* out) {
  const ColumnChannels::Channel* channel = group.channels + first;
  const ColumnChannels::Channel* const last = group.channels + 4;
  // From the end of a channel's row to the beginning of the next channel's.
  const int32_t columns_back = 4 * kColumnWords * width - 8;
  const int32_t out_back = width * static_cast<int32_t>(output & 0xffff) - 1;
  auto x = reinterpret_cast<uintptr_t>(columns + 2 * first) + static_cast<uintptr_t>(columns_back);
  auto to = reinterpret_cast<uintptr_t>(out + first) + static_cast<uintptr_t>(out_back);
  const int32_t odd = width & 1;
  // The end of a channel's pairs of positions, less what is added for the first channel, too.
  uintptr_t end = x - static_cast<uintptr_t>(4 * kColumnWords * odd);
  int32_t bias = 0;
  int32_t multiplier = 0;
  int32_t scale = 0;
  const int32_t zero_point = static_cast<int32_t>(output) >> 17;
  uint32_t a, b, s0, s1, s2, s3;
  // The products of a column with a column of weights, for two outputs above each other.
#define PRODUCTS(s0, s2, from0, from2, upper, lower) \
  "smlad %[" s0 "], %[a], " upper ", %[" from0       \
  "]\n"                                              \
  "smlatb %[" s2 "], %[a], " upper ", %[" from2      \
  "]\n"                                              \
  "smlabt %[" s0 "], %[b], " lower ", %[" s0         \
  "]\n"                                              \
  "smlad %[" s2 "], %[b], " lower ", %[" s2 "]\n"
#define FIRST_COLUMN(sum) \
  "ldr %[" sum "], " IN_MEMORY(bias, 6) "\n" \
  "ldr %[a], [%[x]]\n" \
  "ldr %[b], [%[x], #4]\n"
#define COLUMN(offset) "ldrd %[a], %[b], [%[x], #" offset "]\n"
#define MULTIPLIED(sum) "smmulr %[" sum "], %[" sum "], %[a]\n"
// Shifts, rounds and adds the output's zero point: `a` has -2^31, shifted to the right by
// Scale::shift.
#define ROUNDED(p, q)            \
  "add %[" p "], %[" p "], %[" p \
  "], asr #31\n"                 \
  "add %[" q "], %[" q "], %[" q \
  "], asr #31\n"                 \
  "smmlsr %[" p "], %[" p        \
  "], %[a], %[b]\n"              \
  "smmlsr %[" q "], %[" q        \
  "], %[a], %[b]\n"              \
  "ssat %[" p "], #8, %[" p      \
  "]\n"                          \
  "ssat %[" q "], #8, %[" q "]\n"
  // 13.5 instructions per output, or 19 of the last one of a row.
  MEMORY_WORDS(
      a,
      memory_word(channel),
      end,
      memory_word(odd),
      memory_word(last),
      memory_word(columns_back),
      memory_word(out_back),
      memory_word(bias),
      memory_word(multiplier),
      memory_word(scale),
      output,
      memory_word(row_step),
      memory_word(zero_point));
  __asm__ volatile(
      PUSH_MEMORY("11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0", "%[a]", "%[b]") "3:\n"
      "ldr %[a], " IN_MEMORY(channel, 0) "\n"
      "ldr %[s0], " IN_MEMORY(columns_back, 4) "\n"
      "ldr %[s1], " IN_MEMORY(out_back, 5) "\n"
      "ldr %[s2], " IN_MEMORY(end, 1) "\n"
      "sub %[x], %[s0]; sub %[to], %[s1]; ldmia %[a]!, {r4, r5, r6, r8, r9, r10}; add %[s2], #8\n"
      "ldr %[s0], [%[a]]; ldr %[s1], [%[a], #4]; ldr %[s3], [%[a], #8]\n"
      "str %[s2], " IN_MEMORY(end, 1) "\n"
      "add %[a], #12\n"
      "str %[a], " IN_MEMORY(channel, 0) "\n"
      "str %[s0], " IN_MEMORY(bias, 6) "\n"
      "str %[s1], " IN_MEMORY(multiplier, 7) "\n"
      "mov %[s0], #0x80000000; asr %[s3], %[s0], %[s3]\n"
      "str %[s3], " IN_MEMORY(scale, 8) "\n"
      "cmp %[x], %[s2]; beq 2f\n"
      ".p2align 2\n"
      "1:\n" FIRST_COLUMN("s3") PRODUCTS("s0", "s2", "s3", "s3", "r4", "r8")
      COLUMN("32") PRODUCTS("s1", "s3", "s3", "s3", "r4", "r8")
      PRODUCTS("s0", "s2", "s0", "s2", "r5", "r9")
      COLUMN("64") PRODUCTS("s1", "s3", "s1", "s3", "r5", "r9")
      PRODUCTS("s0", "s2", "s0", "s2", "r6", "r10")
      COLUMN("96") PRODUCTS("s1", "s3", "s1", "s3", "r6", "r10")
      "ldr %[a], " IN_MEMORY(multiplier, 7) "\n"
      MULTIPLIED("s0") MULTIPLIED("s1") MULTIPLIED("s2") MULTIPLIED("s3")
      "ldr %[a], " IN_MEMORY(scale, 8) "\n"
      "ldr %[b], " IN_MEMORY(zero_point, 11) "\n"
      ROUNDED("s0", "s1") ROUNDED("s2", "s3")
      "strb %[s0], [%[to]]\n"
      "ldr %[a], " IN_MEMORY(row_step, 10) "\n"
      "ldr %[s0], " IN_MEMORY(end, 1) "\n"
      "ldr %[b], " IN_MEMORY(output, 9) "\n"
      "strb %[s2], [%[to], %[a]]; uxtah %[to], %[to], %[b]; add %[x], #64; strb %[s1], [%[to]]\n"
      "cmp %[x], %[s0]; strb %[s3], [%[to], %[a]]; uxtah %[to], %[to], %[b]; bne 1b\n"
      "2:\n"
      "ldr %[a], " IN_MEMORY(odd, 2) "\n"
      "cmp %[a], #0\n"
      "beq 4f\n" FIRST_COLUMN("s2") PRODUCTS("s0", "s2", "s2", "s2", "r4", "r8")
      COLUMN("32") PRODUCTS("s0", "s2", "s0", "s2", "r5", "r9")
      COLUMN("64") PRODUCTS("s0", "s2", "s0", "s2", "r6", "r10")
      "ldr %[a], " IN_MEMORY(multiplier, 7) "\n"
      MULTIPLIED("s0") MULTIPLIED("s2")
      "ldr %[a], " IN_MEMORY(scale, 8) "\n"
      "ldr %[b], " IN_MEMORY(zero_point, 11) "\n"
      ROUNDED("s0", "s2")
      "ldr %[a], " IN_MEMORY(row_step, 10) "\n"
      "ldr %[b], " IN_MEMORY(output, 9) "\n"
      "strb %[s0], [%[to]]; strb %[s2], [%[to], %[a]]; add %[x], #32; uxtah %[to], %[to], %[b]\n"
      "4:\n"
      "ldr %[a], " IN_MEMORY(channel, 0) "\n"
      "ldr %[b], " IN_MEMORY(last, 3) "\n"
      "cmp %[a], %[b]\n"
      "bne 3b\n" POP_MEMORY(12)
      : [x] "+r"(x),
        [to] "+r"(to),
        [a] MEMORY_ADDRESS(a),
        [b] "=&r"(b),
        [s0] "=&r"(s0),
        [s1] "=&r"(s1),
        [s2] "=&r"(s2),
        [s3] "=&r"(s3) WITH_GCC(, [channel] "+m"(channel),
        [end] "+m"(end),
        [bias] "+m"(bias),
        [multiplier] "+m"(multiplier),
        [scale] "+m"(scale))
      : WITH_GCC([odd] "m"(odd),
        [last] "m"(last),
        [columns_back] "m"(columns_back),
        [out_back] "m"(out_back),
        [output] "m"(output),
        [row_step] "m"(row_step),
        [zero_point] "m"(zero_point))
      : "memory", "cc", "r4", "r5", "r6", "r8", "r9", "r10");
#undef ROUNDED
#undef MULTIPLIED
#undef COLUMN
#undef FIRST_COLUMN
#undef PRODUCTS
}

#undef SCALED

#else

/// Does the same as multiply_row() for three elements whose inputs are `step` apart.
ET_INLINE void multiply_three(
    const int8_t* x,
    int32_t step,
    const int8_t*& weights,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  multiply_group(x, weights, s0, s1, s2, s3);
  multiply_group(x + step, weights + 4, s0, s1, s2, s3);
  multiply_group(x + 2 * step, weights + 8, s0, s1, s2, s3);
  weights += 12;
}

/// Computes all whole groups of channels of a 3x3 depthwise convolution at one position.
void depthwise_pixel_3x3(
    const PackedParts& parts,
    const int8_t* row0,
    const int8_t* row1,
    const int8_t* row2,
    int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t addend = addend_of(*parts.layer);
  const int32_t* bias = parts.bias;
  const int32_t* multipliers = parts.multipliers;
  const int8_t* shifts = parts.shifts;
  const int8_t* weights = parts.weights;
  int8_t* const end = out + (channels & ~3);
  do {
    int32_t s0 = bias[0];
    int32_t s1 = bias[1];
    int32_t s2 = bias[2];
    int32_t s3 = bias[3];
    bias += 4;
    multiply_three(row0, channels, weights, s0, s1, s2, s3);
    multiply_three(row1, channels, weights, s0, s1, s2, s3);
    multiply_three(row2, channels, weights, s0, s1, s2, s3);
    row0 += 4;
    row1 += 4;
    row2 += 4;
    store_group(multipliers, shifts, addend, s0, s1, s2, s3, out);
    multipliers += 4;
    shifts += 4;
    out += 4;
  } while (out != end);
}

/// Does the same as depthwise_pixel_any() of packed_mve.h without its instructions.
void depthwise_pixel_of_sixteens(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t offset,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t taps = parts.inner;
  for (int32_t c = 0; c < layer.channels; ++c) {
    const int32_t place = depthwise_place(layer, c);
    const int8_t* weights = parts.weights + (c & ~15) * taps + (c & 15);
    int32_t sum = parts.bias[place];
    for (int32_t i = 0; i < layer.kernel[0]; ++i) {
      const int8_t* x = rows[i] + offset + c;
      for (int32_t j = 0; j < layer.kernel[1]; ++j) {
        sum = wrapping_add(sum, *x * *weights);
        x += layer.channels;
        weights += 16;
      }
    }
    out[c] = scale_wide(parts, sum, place);
  }
}

#ifndef __thumb__

// Tests on the host, which run programs for DSP, have this instead of these instructions.

struct ColumnChannels {
  const PackedParts& parts;
  int32_t channel;
  const int8_t* weights;
};

void expand_columns(
    const int8_t* first,
    int32_t first_step,
    const int8_t* second,
    int32_t second_step,
    int32_t columns,
    uint32_t* to) {
  for (; columns > 0; --columns) {
    for (int32_t i = 0; i < 4; ++i) {
      to[2 * i] = two_numbers(first[i], second[i]);
    }
    first += first_step;
    second += second_step;
    to += kColumnWords;
  }
}

/// Computes a row of outputs whose windows begin in row `top` of the columns.
void row_to_outputs(
    const ColumnChannels& group,
    int32_t first,
    const uint32_t* columns,
    int32_t width,
    uint32_t /*output*/,
    int8_t* out,
    int32_t top = 0) {
  const PackedLayer& layer = *group.parts.layer;
  for (int32_t x = 0; x < width; ++x) {
    for (int32_t i = first; i < 4; ++i) {
      int32_t sum = group.parts.bias[group.channel + i];
      for (int32_t tap = 0; tap < 9; ++tap) {
        const int32_t row = top + tap / 3;
        const uint32_t pair = columns[tap % 3 * kColumnWords + 2 * i + row / 2];
        const auto value = static_cast<int16_t>(row % 2 == 0 ? pair : pair >> 16);
        sum = wrapping_add(sum, value * group.weights[4 * tap + i]);
      }
      out[i] = scaled(group.parts, sum, group.channel + i);
    }
    columns += layer.stride[1] * kColumnWords;
    out += layer.channels;
  }
}

void rows_to_outputs(
    const ColumnChannels& group,
    int32_t first,
    const uint32_t* columns,
    int32_t width,
    uint32_t output,
    int32_t row_step,
    int8_t* out) {
  row_to_outputs(group, first, columns, width, output, out);
  row_to_outputs(group, first, columns, width, output, out + row_step, 1);
}

#endif

#endif // !__ARM_FEATURE_DSP

#if defined(__ARM_FEATURE_DSP) || !defined(__thumb__)

/// A ring buffer of rows of words, with four channels per word.
struct WordRows {
  const uint32_t* begin;
  const uint32_t* end;
  const uint32_t* oldest;
  int32_t columns;

  /// Returns the next row.
  ET_INLINE const uint32_t* after(const uint32_t* row) const {
    return row + columns == end ? begin : row + columns;
  }

  /// Returns the row that follows `count` rows later, at most the number of rows.
  ET_INLINE const uint32_t* after(const uint32_t* row, int32_t count) const {
    const int32_t words = count * columns;
    return row + (words < end - row ? words : words - (end - begin));
  }
};

/// Returns the columns of an image and its padding that windows of three by three use.
ET_INLINE int32_t columns_of_three(const PackedLayer& layer, const Window& width) {
  return (width.out - 1) * layer.stride[1] + 3;
}

/// Returns the words of scratch memory of three_by_three(): its columns, and a margin in which
/// next_columns() moves them by a word each time before it copies them back.
ET_INLINE int64_t three_by_three_words(const PackedLayer& layer, const Window& width) {
  return kColumnWords * int64_t{columns_of_three(layer, width)} +
      3 * (int64_t{width.in} + 2 * layer.padding[1]);
}

/// Counts the columns of three_by_three(): those of padding on the left, of an image, and all.
struct ThreeByThree {
  int32_t left;
  int32_t inside;
  int32_t all;

  ET_INLINE ThreeByThree(const PackedLayer& layer, const Window& width)
      : left(layer.padding[1]), inside(width.in), all(columns_of_three(layer, width)) {
    left = std::min(left, all);
    inside = std::min(inside, all - left);
  }
};

/// Writes four channels of a row of an image and of the next one to columns, which have the padding
/// beside them.
ET_NOINLINE void expand_two_rows(
    const PackedLayer& layer,
    const PackedImages& images,
    const int8_t* image,
    int32_t row,
    uint32_t* columns) {
  const ThreeByThree counts(layer, images.width);
  if (counts.inside <= 0) {
    return;
  }
  const uint32_t padding = static_cast<uint8_t>(layer.input_zero_point) * 0x01010101u;
  const int8_t* from[2];
  int32_t steps[2];
  for (int32_t i = 0; i < 2; ++i, ++row) {
    const bool is_inside = static_cast<uint32_t>(row) < static_cast<uint32_t>(images.height.in);
    steps[i] = is_inside ? layer.channels : 0;
    from[i] = is_inside ? image + row * images.width.in * layer.channels
                        : reinterpret_cast<const int8_t*>(&padding);
  }
  columns += kColumnWords * counts.left;
  expand_columns(from[0], steps[0], from[1], steps[1], counts.inside, columns);
}

/// Expands `count` pairs of words, at least one, which are `from_step` bytes apart in both rows:
/// two elements of each of four channels. The results are `to_step` bytes apart.
ET_NOINLINE void expand_pairs(
    const uint32_t* first,
    const uint32_t* second,
    int32_t from_step,
    int32_t count,
    uint32_t* to,
    int32_t to_step) {
#ifdef __ARM_FEATURE_DSP
  const uint32_t* const end = to + count * to_step / 4;
  __asm__ volatile(
      "1:\n"
      "ldr r4, [%[first]]; ldr r6, [%[second]]; pkhbt r8, r4, r6, lsl #16\n"
      "pkhtb r10, r6, r4, asr #16; sxtb16 r4, r8; sxtb16 r6, r8, ror #8; sxtb16 r9, r10\n"
      "sxtb16 r10, r10, ror #8; stmia %[to], {r4, r6, r9, r10}; add %[first], %[from_step]\n"
      "add %[second], %[from_step]; add %[to], %[to_step]; cmp %[to], %[end]; bne 1b\n"
      : [first] "+r"(first), [second] "+r"(second), [to] "+r"(to)
      : [from_step] "r"(from_step), [to_step] "r"(to_step), [end] "r"(end)
      : "memory", "cc", "r4", "r6", "r8", "r9", "r10");
#else
  for (; count > 0; --count) {
    const auto* const low = reinterpret_cast<const int8_t*>(first);
    const auto* const high = reinterpret_cast<const int8_t*>(second);
    for (int32_t i = 0; i < 4; ++i) {
      to[i] = two_numbers(low[i], high[i]);
    }
    first += from_step / 4;
    second += from_step / 4;
    to += to_step / 4;
  }
#endif
}

/// Adds the products of four channels with `count` pairs of weights; those move on.
ET_INLINE void dot_pairs(
    const uint32_t* x,
    int32_t count,
    const uint32_t*& weights,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  const uint32_t* const end = x + 4 * count;
#ifdef __ARM_FEATURE_DSP
  auto a = static_cast<uint32_t>(count);
  uint32_t b;
#define FOUR_PAIRS                      \
  "ldmia %[x]!, {r4, r5, r6, r8}\n"     \
  "ldrd %[a], %[b], [%[weights]], #8\n" \
  "smlad %[s0], r4, %[a], %[s0]\n"      \
  "smlad %[s1], r5, %[b], %[s1]\n"      \
  "ldrd %[a], %[b], [%[weights]], #8\n" \
  "smlad %[s2], r6, %[a], %[s2]\n"      \
  "smlad %[s3], r8, %[b], %[s3]\n"
  // 1.1 instructions per product.
  __asm__ volatile(
      "tst %[a], #1; bne 2f\n"
      "1:\n" FOUR_PAIRS "2:\n" FOUR_PAIRS "ldr %[a], %[end]; cmp %[x], %[a]; bne 1b\n"
      : FOUR_SUMS, [x] "+r"(x), [weights] "+r"(weights), [a] "+r"(a), [b] "=&r"(b)
      : [end] "m"(end)
      : "memory", "cc", "r4", "r5", "r6", "r8");
#undef FOUR_PAIRS
#else
  const auto dot = [](uint32_t a, uint32_t b, int32_t sum) {
    sum = wrapping_add(sum, static_cast<int16_t>(a) * static_cast<int16_t>(b));
    return wrapping_add(sum, static_cast<int16_t>(a >> 16) * static_cast<int16_t>(b >> 16));
  };
  for (; x != end; x += 4) {
    s0 = dot(x[0], weights[0], s0);
    s1 = dot(x[1], weights[1], s1);
    s2 = dot(x[2], weights[2], s2);
    s3 = dot(x[3], weights[3], s3);
    weights += 4;
  }
#endif
}

/// Computes windows for depthwise_columns(): two products at a time, of elements above each other
/// and, in the last one of an odd number of rows, of elements side by side.
class Pairs final {
 public:
  ET_INLINE Pairs(const PackedLayer& layer, const Window& /*width*/)
      : height_(layer.kernel[0]),
        width_(layer.kernel[1]),
        below_(layer.dilation[0]),
        beside_(width_ > 1 ? layer.dilation[1] : 1),
        stride_(layer.stride[1]),
        times_(layer.channels / layer.in_channels),
        upright_(height_ / 2),
        side_by_side_((height_ & 1) != 0 ? (width_ + 1) / 2 : 0) {}

  ET_INLINE int32_t rows() const {
    return (height_ - 1) * below_ + 1;
  }

  ET_INLINE int32_t times() const {
    return times_;
  }

  static int64_t scratch_words(const PackedLayer& layer, const Window& width) {
    const Pairs pairs(layer, width);
    const int32_t used = pairs.used(width.out < kPairOutputs ? width.out : kPairOutputs);
    return 4 *
        (int64_t{pairs.weights()} + int64_t{pairs.upright_} * pairs.of_upright(used).columns() +
         (pairs.side_by_side_ != 0 ? pairs.of_others(used).columns() : 0));
  }

  /// Writes pairs of weights to the beginning of `scratch`, in the order in which they are used.
  ET_INLINE void prepare(const int8_t* weights, uint32_t* scratch) const {
    const int32_t row = 4 * width_;
    for (int32_t x = 0; x < row; x += 4) {
      for (int32_t y = 0; y < upright_; ++y) {
        const int8_t* const from = weights + 2 * y * row + x;
        scratch = put_weights(from, from + row, scratch);
      }
    }
    constexpr int8_t kNone[4] = {};
    const int8_t* const last = weights + 2 * upright_ * row;
    for (int32_t i = 0; i < side_by_side_; ++i) {
      const int8_t* const from = last + 8 * i;
      scratch = put_weights(from, 2 * i + 1 < width_ ? from + 4 : kNone, scratch);
    }
  }

  /// Computes a row of outputs, of a group's channels from `first` on.
  ET_INLINE void compute(
      const PackedParts& parts,
      int32_t channel,
      const WordRows& rows,
      int32_t first,
      const Window& width,
      uint32_t* scratch,
      int8_t* out) const {
    uint32_t* const expanded = scratch + 4 * weights();
    for (int32_t x = 0; x < width.out; x += kPairOutputs) {
      const int32_t outputs = width.out - x < kPairOutputs ? width.out - x : kPairOutputs;
      const int32_t used = this->used(outputs);
      const int32_t from = x * stride_;
      const uint32_t* row = rows.oldest;
      const Order upright = of_upright(used);
      for (int32_t i = 0; i < upright_; ++i) {
        const uint32_t* const second = rows.after(row, below_);
        expand(upright, used, row + from, second + from, expanded + 4 * i, 4 * upright_);
        row = rows.after(second, below_);
      }
      const Order others = of_others(used);
      uint32_t* const last = expanded + 4 * upright_ * upright.columns();
      if (side_by_side_ != 0) {
        // Another row follows, or weights and expanded elements: with an odd width, any element may
        // follow the last one.
        expand(others, used, row + from, row + from + beside_, last, 4);
      }
      const Places places = {scratch, expanded, upright, last, others};
      to_outputs(parts, channel, first, outputs, places, out);
      out += outputs * parts.layer->channels;
    }
  }

 private:
  /// The order of expanded columns: first every `period`th one, then those that come after these.
  struct Order {
    int32_t period;
    /// Counts the columns of each of them, as many as the first one has.
    int32_t each;

    ET_INLINE int32_t columns() const {
      return period * each;
    }

    ET_INLINE int32_t place(int32_t column) const {
      return column % period * each + column / period;
    }
  };

  /// Holds what to_outputs() reads.
  struct Places {
    const uint32_t* weights;
    const uint32_t* expanded;
    Order upright;
    const uint32_t* last;
    Order others;
  };

  /// Returns the columns under the windows of outputs.
  ET_INLINE int32_t used(int32_t outputs) const {
    return (outputs - 1) * stride_ + (width_ - 1) * beside_ + 1;
  }

  ET_INLINE Order of_upright(int32_t used) const {
    return {beside_, (used + beside_ - 1) / beside_};
  }

  ET_INLINE Order of_others(int32_t used) const {
    return {2 * beside_, (used + 2 * beside_ - 1) / (2 * beside_)};
  }

  /// Groups of four pairs of weights.
  ET_INLINE int32_t weights() const {
    return upright_ * width_ + side_by_side_;
  }

  static ET_INLINE uint32_t* put_weights(const int8_t* low, const int8_t* high, uint32_t* to) {
    for (int32_t i = 0; i < 4; ++i) {
      *to++ = two_numbers(low[i], high[i]);
    }
    return to;
  }

  /// Expands pairs of columns, of which each has `step` words, in an order.
  ET_NOINLINE void expand(
      Order order,
      int32_t used,
      const uint32_t* first,
      const uint32_t* second,
      uint32_t* to,
      int32_t step) const {
    // Windows may all begin in the first ones.
    const int32_t parts = stride_ % order.period == 0 ? 1 : order.period;
    for (int32_t part = 0; part < parts && part < used; ++part) {
      const int32_t count = (used - part + order.period - 1) / order.period;
      expand_pairs(first + part, second + part, 4 * order.period, count, to, 4 * step);
      to += order.each * step;
    }
  }

  ET_NOINLINE void to_outputs(
      const PackedParts& parts,
      int32_t channel,
      int32_t first,
      int32_t outputs,
      const Places& places,
      int8_t* out) const {
    // Storing outputs changes none of these, which the compiler does not know.
    const PackedLayer layer = *parts.layer;
    const Pairs pairs = *this;
    const Places from = places;
    const int32_t times = pairs.times_;
    const int32_t* const bias = parts.bias + channel;
    const int32_t* const multipliers = parts.multipliers + channel;
    const int8_t* const shifts = parts.shifts + channel;
    const bool is_plain = first == 0 && layer.is_wide == 0 && times == 1;
    const int32_t step = pairs.stride_;
    for (int32_t column = 0; outputs > 0; --outputs, column += step) {
      int32_t s0 = bias[0];
      int32_t s1 = bias[times];
      int32_t s2 = bias[2 * times];
      int32_t s3 = bias[3 * times];
      const uint32_t* weights = from.weights;
      if (pairs.upright_ != 0) {
        const uint32_t* const x = from.expanded + 4 * pairs.upright_ * from.upright.place(column);
        dot_pairs(x, pairs.upright_ * pairs.width_, weights, s0, s1, s2, s3);
      }
      if (pairs.side_by_side_ != 0) {
        const uint32_t* const x = from.last + 4 * from.others.place(column);
        dot_pairs(x, pairs.side_by_side_, weights, s0, s1, s2, s3);
      }
      if (is_plain) {
        store_group(multipliers, shifts, addend_of(layer), s0, s1, s2, s3, out);
      } else {
        const int32_t sums[4] = {s0, s1, s2, s3};
        for (int32_t i = first; i < 4; ++i) {
          out[i * times] = scaled(parts, sums[i], channel + i * times);
        }
      }
      out += layer.channels;
    }
  }

  int32_t height_;
  int32_t width_;
  /// From one element of the window to the next one.
  int32_t below_;
  int32_t beside_;
  int32_t stride_;
  int32_t times_;
  /// Pairs of rows, and pairs in the last one of an odd number of them.
  int32_t upright_;
  int32_t side_by_side_;
};

/// Returns the columns of three_by_three() for the next rows of an image, where the lower pairs of
/// `columns` are the upper ones: one word further. Without `columns`, returns the first ones.
ET_NOINLINE uint32_t*
next_columns(const PackedLayer& layer, const Window& width, uint32_t* begin, uint32_t* columns) {
  const ThreeByThree counts(layer, width);
  const int32_t left = kColumnWords * counts.left;
  const int32_t words = kColumnWords * counts.all;
  const uint32_t padding = two_numbers(layer.input_zero_point, layer.input_zero_point);
  if (columns == nullptr) {
    // The columns that expand_two_rows() doesn't write.
    std::fill_n(begin, left, padding);
    std::fill(begin + left + kColumnWords * counts.inside, begin + words, padding);
    return begin;
  }
  ++columns;
  if (columns + words > begin + three_by_three_words(layer, width)) {
    std::memmove(begin, columns, 4 * static_cast<size_t>(words - 1));
    columns = begin;
  }
  if (left > 0) {
    columns[left - 1] = padding;
  }
  columns[words - 1] = padding;
  return columns;
}

/// Computes a depthwise convolution for DSP of three by three, four channels at a time. Each
/// element is expanded once if the stride is one or two, and two rows of outputs are computed at
/// once if it is one in both directions.
ET_NOINLINE void three_by_three(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t channels = layer.channels;
  const int32_t row_step = images.width.out * channels;
  const uint32_t output = two_halves(channels, addend_of(layer));
  const bool has_neighbours = layer.stride[0] == 1 && layer.stride[1] == 1;
  auto* const begin = aligned_cast<uint32_t>(scratch);
  if (row_step <= 0) {
    return;
  }
  for (int32_t group = 0; group < channels; group += 4) {
    // The last four channels are a group, too. Those that an earlier one has may be outputs now.
    const int32_t c = group + 4 <= channels ? group : channels - 4;
    const ColumnChannels prepared{parts, c, parts.weights + 9 * group};
    const int8_t* image = in + c;
    int8_t* to = out + c;
    for (int32_t n = images.batch; n > 0; --n) {
      uint32_t* columns = next_columns(layer, images.width, begin, nullptr);
      int32_t top = -images.height.padding;
      bool has_upper = false;
      for (int32_t y = images.height.out; y > 0;) {
        if (has_upper) {
          columns = next_columns(layer, images.width, begin, columns);
        } else {
          expand_two_rows(layer, images, image, top, columns);
        }
        expand_two_rows(layer, images, image, top + 2, columns + 1);
        const int32_t rows = has_neighbours && y > 1 ? 2 : 1;
        if (rows == 2) {
          rows_to_outputs(prepared, group - c, columns, images.width.out, output, row_step, to);
        } else {
          row_to_outputs(prepared, group - c, columns, images.width.out, output, to);
        }
        y -= rows;
        to += rows * row_step;
        top += rows * layer.stride[0];
        has_upper = rows == 2 || layer.stride[0] == 2;
      }
      image += images.height.in * images.width.in * channels;
    }
  }
}

/// Computes a depthwise convolution for DSP with any windows, four channels at a time.
ET_NOINLINE void depthwise_columns(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const Pairs windows(layer, images.width);
  const int32_t channels = layer.in_channels;
  const int32_t width = images.width.in;
  const int32_t height = images.height.in;
  const int32_t columns = width + 2 * layer.padding[1];
  const uint32_t padding = static_cast<uint8_t>(layer.input_zero_point) * 0x01010101u;
  auto* const rows = aligned_cast<uint32_t>(scratch);
  uint32_t* const rows_end = rows + windows.rows() * columns;
  const int32_t row_step = images.width.out * layer.channels;
  if (images.width.out <= 0) {
    return;
  }
  const int8_t* weights = parts.weights;
  int32_t part = 0;
  for (int32_t group = 0; group < channels;) {
    // The last four channels are a group, too. Those that an earlier one has may be outputs now.
    const int32_t c = group + 4 <= channels ? group : channels - 4;
    const int32_t first = group - c;
    const int32_t result = c * windows.times() + part;
    windows.prepare(weights, rows_end);
    weights += 4 * parts.inner;
    const int8_t* from = in + c;
    int8_t* to = out + result;
    for (int32_t n = 0; n < images.batch; ++n) {
      std::fill_n(rows, windows.rows() * columns, padding);
      uint32_t* oldest = rows;
      int32_t row = -images.height.padding;
      int32_t end = row + windows.rows();
      for (int32_t y = images.height.out; y > 0; --y) {
        for (; row < end; ++row) {
          uint32_t* word = oldest + layer.padding[1];
          uint32_t* const words_end = word + width;
          oldest = oldest + columns == rows_end ? rows : oldest + columns;
          if (row < 0 || row >= height) {
            std::fill(word, words_end, padding);
            continue;
          }
          while (word != words_end) {
            *word++ = load_word(from);
            from += channels;
          }
        }
        const WordRows all = {rows, rows_end, oldest, columns};
        windows.compute(parts, result, all, first, images.width, rows_end, to);
        to += row_step;
        end += layer.stride[0];
      }
      // Rows that no window reaches.
      from += (row < height ? height - row : 0) * width * channels;
    }
    // The next output of the same inputs, or the next inputs.
    part = part + 1 < windows.times() ? part + 1 : 0;
    group += part == 0 ? 4 : 0;
  }
}

#endif

#ifndef __ARM_FEATURE_DSP

/// Computes four channels from `channel` on of a depthwise convolution at one position.
ET_INLINE void depthwise_group(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t offset,
    int32_t channel,
    const int8_t* weights,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t* const bias = parts.bias + channel;
  int32_t s0 = bias[0];
  int32_t s1 = bias[1];
  int32_t s2 = bias[2];
  int32_t s3 = bias[3];
  for (int32_t i = 0; i < layer.kernel[0]; ++i) {
    const int8_t* const x = rows[i] + offset + channel;
    multiply_row(x, layer.channels, layer.kernel[1], weights, s0, s1, s2, s3);
  }
  // A copy of them: the sums themselves are in registers.
  const int32_t sums[4] = {s0, s1, s2, s3};
  for (int32_t i = 0; i < 4; ++i) {
    out[channel + i] = scaled(parts, sums[i], channel + i);
  }
}

/// Computes all whole groups of channels of a depthwise convolution at one position.
void depthwise_pixel(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t offset,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  if (layer.arrangement == Arrangement::Mve) {
    depthwise_pixel_of_sixteens(parts, rows, offset, out);
    return;
  }
  if (layer.kernel[0] == 3 && layer.kernel[1] == 3 && layer.is_wide == 0) {
    depthwise_pixel_3x3(parts, rows[0] + offset, rows[1] + offset, rows[2] + offset, out);
    return;
  }
  const int8_t* weights = parts.weights;
  for (int32_t c = 0; c + 4 <= layer.channels; c += 4) {
    depthwise_group(parts, rows, offset, c, weights, out);
    weights += 4 * parts.inner;
  }
}

/// Computes all whole groups of channels of a row of a depthwise convolution.
void depthwise_row(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t width,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  for (int32_t x = 0; x < width; ++x) {
    depthwise_pixel(parts, rows, x * layer.stride[1] * layer.channels, out);
    out += layer.channels;
  }
}

/// Computes the last four channels, if there are more than whole groups of them, at the positions
/// of a row, whose inputs are `step` apart.
__attribute__((noinline)) void depthwise_last_group(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t step,
    int32_t width,
    int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int8_t* const weights = parts.weights + (channels & ~3) * parts.inner;
  for (int32_t x = 0; x < width; ++x) {
    depthwise_group(parts, rows, x * step, channels - 4, weights, out);
    out += channels;
  }
}

#endif // !__ARM_FEATURE_DSP

#endif // !__ARM_FEATURE_MVE

#if !defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_MVE)

/// Computes a depthwise convolution that is not for DSP, pixel by pixel.
ET_NOINLINE void depthwise_rows(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  [[maybe_unused]] int8_t* const first_out = out;
  const int32_t kernel = layer.kernel[0];
  const int32_t padding = images.height.padding;
  const int32_t channels = layer.in_channels;
  const int32_t in_row = images.width.in * channels;
  const bool is_padded = layer.padding[0] != 0 || layer.padding[1] != 0;
  const int32_t side = layer.padding[1] * channels;
  const int32_t padded_row = in_row + 2 * side;
  for (int32_t n = 0; n < images.batch; ++n) {
    // Input rows before this one are in `scratch`, each replacing the one `kernel` rows before. The
    // padding beside them is written once.
    int32_t next = 0;
    if (is_padded) {
      std::memset(scratch, layer.input_zero_point, static_cast<size_t>(kernel * padded_row));
    }
    for (int32_t y = 0; y < images.height.out; ++y) {
      const int32_t top = y * layer.stride[0] - padding;
      const int8_t* rows[kMaxDepthwiseKernel];
      for (int32_t i = 0; i < kernel; ++i) {
        const int32_t row = top + i;
        if (!is_padded) {
          rows[i] = in + row * in_row;
          continue;
        }
        int8_t* const place = scratch + (row + padding) % kernel * padded_row;
        rows[i] = place;
        if (row < next) {
          continue;
        }
        next = row + 1;
        if (row < images.height.in) {
          // In a corrupted program scratch memory may overlap the input.
          std::memmove(place + side, in + row * in_row, static_cast<size_t>(in_row));
        } else {
          std::memset(place + side, layer.input_zero_point, static_cast<size_t>(in_row));
        }
      }
      depthwise_row(parts, rows, images.width.out, out);
      out += images.width.out * channels;
#ifndef __ARM_FEATURE_MVE
      if (channels % 4 != 0 && !is_for_vectors(layer)) {
        const int32_t width = images.width.out;
        depthwise_last_group(
            parts, rows, layer.stride[1] * channels, width, out - width * channels);
      }
#endif
    }
    in += images.height.in * in_row;
  }
#ifdef __ARM_FEATURE_MVE
  clamp_outputs(layer, first_out, static_cast<int32_t>(out - first_out));
#endif
}

#ifdef __ARM_FEATURE_MVE

/// Does the same for a layer that is_repeated(). Other layers need no stack for its tables.
__attribute__((noinline)) void depthwise_repeated(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const RepeatedTables tables(parts);
  depthwise_rows(tables.parts(parts), images, in, scratch, out);
}

#endif

#endif

} // namespace

int64_t depthwise_scratch(const PackedParts& parts, const Window& width) {
  const PackedLayer& layer = *parts.layer;
  if (is_channelwise(layer)) {
    return 0;
  }
#if !defined(__ARM_FEATURE_MVE) && (defined(__ARM_FEATURE_DSP) || !defined(__thumb__))
  if (layer.arrangement == Arrangement::Dsp) {
    if (is_three_by_three(layer)) {
      return 4 * three_by_three_words(layer, width);
    }
    // The rows under a window, of four channels, and these expanded.
    const int64_t columns = int64_t{width.in} + 2 * layer.padding[1];
    return 4 * (window_rows(layer) * columns + Pairs::scratch_words(layer, width));
  }
#endif
  return layer.padding[0] == 0 && layer.padding[1] == 0 ? 0 : rows_scratch(layer, width);
}

ET_NOINLINE void packed_depthwise(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    [[maybe_unused]] uint32_t needs) {
  const PackedLayer& layer = *parts.layer;
  [[maybe_unused]] const int32_t pixels = images.batch * images.height.out * images.width.out;
#ifndef __ARM_FEATURE_MVE
  if ((needs & kNeedsChannelwise) != 0 && is_channelwise(layer)) {
    channelwise(parts, pixels, in, out);
    clamp_outputs(layer, out, pixels * layer.channels);
    return;
  }
#endif
#if !defined(__ARM_FEATURE_MVE) && (defined(__ARM_FEATURE_DSP) || !defined(__thumb__))
  if (layer.arrangement == Arrangement::Dsp) {
    if ((needs & kNeedsColumns) != 0 && is_three_by_three(layer)) {
      three_by_three(parts, images, in, scratch, out);
    } else if ((needs & kNeedsOthers) != 0) {
      depthwise_columns(parts, images, in, scratch, out);
    }
  }
#endif
#ifdef __ARM_FEATURE_MVE
  // Neither needs this function's stack.
  if (is_repeated(layer)) {
    depthwise_repeated(parts, images, in, scratch, out);
  } else {
    depthwise_rows(parts, images, in, scratch, out);
  }
#else
#ifndef __ARM_FEATURE_DSP
  if (layer.arrangement != Arrangement::Dsp) {
    depthwise_rows(parts, images, in, scratch, out);
  }
#endif
  clamp_outputs(layer, out, pixels * layer.channels);
#endif
}

void packed_depthwise(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    uint32_t needs) {
  packed_depthwise(image_parts(packed, LayerKind::Depthwise), images, in, scratch, out, needs);
}

} // namespace torch::executor::native::cortex_m
