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

/// The words of an expanded column: the upper two rows of each of four channels, and the last row.
[[maybe_unused]] constexpr int32_t kColumnWords = 8;

/// The largest stride of depthwise_columns(): the stride times the size of an expanded column must
/// fit in a byte.
constexpr int32_t kMaxColumnStride = 7;

/// Outputs of a row of which depthwise_columns() expands the inputs at once, where the window is
/// another than three by three.
[[maybe_unused]] constexpr int32_t kPairOutputs = 32;

/// Whether a depthwise layer, one for DSP, has windows of three by three that ThreeByThree takes.
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
/// for each the weights of the upper two rows, those of the last row but its last one, that one
/// with the shift and the bytes from one position's columns to the next one's; bias and multiplier.
/// Weights and biases are doubled.
struct ColumnChannels {
  struct Channel {
    uint32_t upper[3];
    uint32_t last;
    uint32_t others;
    int32_t bias;
    int32_t multiplier;
  };
  Channel channels[4];

  ColumnChannels(const PackedParts& parts, int32_t channel, const int8_t* weights) {
    const uint32_t step = 4 * kColumnWords * parts.layer->stride[1];
    for (Channel& to : channels) {
      for (int32_t i = 0; i < 3; ++i) {
        to.upper[i] = two_halves(2 * weights[4 * i], 2 * weights[4 * i + 12]);
      }
      to.last = two_halves(2 * weights[24], 2 * weights[28]);
      // Limits the number of bits to that of a shift, even in a corrupted program.
      to.others = two_halves(
          static_cast<int32_t>(static_cast<uint32_t>(parts.shifts[channel] & 31) | step << 8),
          2 * weights[32]);
      to.bias = 2 * parts.bias[channel];
      to.multiplier = parts.multipliers[channel];
      ++channel;
      ++weights;
    }
  }
};

/// Expands columns of three rows of words: four channels, of which kColumnWords are written.
__attribute__((noinline)) void expand_columns(
    const uint32_t* p0,
    const uint32_t* p1,
    const uint32_t* p2,
    int32_t columns,
    uint32_t* to) {
  // 4.5 instructions per element.
  __asm__ volatile(
      "1:\n"
      "ldr r4, [%[p0]], #4\n"
      "ldr r10, [%[p1]], #4\n"
      "ldr r5, [%[p2]], #4\n"
      "sxtb16 r6, r4, ror #8\n"
      "sxtb16 r4, r4\n"
      "sxtb16 r12, r10, ror #8\n"
      "sxtb16 r10, r10\n"
      "pkhtb r9, r10, r4, asr #16\n"
      "pkhbt r4, r4, r10, lsl #16\n"
      "pkhtb r11, r12, r6, asr #16\n"
      "pkhbt r6, r6, r12, lsl #16\n"
      "sxtb16 r8, r5, ror #8\n"
      "sxtb16 r5, r5\n"
      "subs %[columns], #1\n"
      "ror r10, r5, #16\n"
      "ror r12, r8, #16\n"
      "stmia %[to]!, {r4, r5, r6, r8, r9, r10, r11, r12}\n"
      "bgt 1b\n"
      : [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [to] "+r"(to), [columns] "+r"(columns)
      :
      : "memory", "cc", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12");
}

/// A row of outputs of a group's channels, from one on, of a depthwise convolution of three by
/// three.
///
/// @param[in] output What Scale::addend is, above the number of all channels.
__attribute__((noinline)) void columns_to_outputs(
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
  // Whether two neighbours share columns, and whether one has none.
  const uint32_t step = channel->others >> 8 & 0xff;
  const int32_t order = (step == 4 * kColumnWords) * 2 + (width & 1);
  const uint32_t* end = columns + width * static_cast<int32_t>(step / 4);
  uint32_t x, to, e, f, sum, other;
  // After the sums, the rest of Scale::apply() follows.
#define STORED(sum)            \
  "smmulr " sum ", " sum       \
  ", r11\n"                    \
  "add " sum ", " sum ", " sum \
  ", asr #31\n"                \
  "asr " sum ", " sum          \
  ", r9\n"                     \
  "sxtah " sum ", " sum        \
  ", %[output], ror #16\n"     \
  "ssat " sum ", #8, " sum     \
  ", asr #1\n"                 \
  "strb " sum                  \
  ", [%[to]]\n"                \
  "uxtah %[to], %[to], %[output]\n"
  // 18.5 instructions per output.
#define OUTPUT                        \
  "ldrd %[e], %[f], [%[x]]\n"         \
  "smlad %[sum], %[e], r4, r10\n"     \
  "smlabb %[sum], %[f], r8, %[sum]\n" \
  "ldrd %[e], %[f], [%[x], #32]\n"    \
  "smlad %[sum], %[e], r5, %[sum]\n"  \
  "smlabt %[sum], %[f], r8, %[sum]\n" \
  "ldrd %[e], %[f], [%[x], #64]\n"    \
  "smlad %[sum], %[e], r6, %[sum]\n"  \
  "smlabt %[sum], %[f], r9, %[sum]\n" \
  "uxtab %[x], %[x], r9, ror #8\n" STORED("%[sum]")
  // 17 instructions per output.
#define TWO_NEIGHBOURS                    \
  "ldrd %[e], %[f], [%[x]]\n"             \
  "smlad %[sum], %[e], r4, r10\n"         \
  "smlabb %[sum], %[f], r8, %[sum]\n"     \
  "ldrd %[e], %[f], [%[x], #32]\n"        \
  "smlad %[sum], %[e], r5, %[sum]\n"      \
  "smlabt %[sum], %[f], r8, %[sum]\n"     \
  "smlad %[other], %[e], r4, r10\n"       \
  "smlabb %[other], %[f], r8, %[other]\n" \
  "ldrd %[e], %[f], [%[x], #64]\n"        \
  "smlad %[sum], %[e], r6, %[sum]\n"      \
  "smlabt %[sum], %[f], r9, %[sum]\n"     \
  "smlad %[other], %[e], r5, %[other]\n"  \
  "smlabt %[other], %[f], r8, %[other]\n" \
  "ldrd %[e], %[f], [%[x], #96]\n"        \
  "smlad %[other], %[e], r6, %[other]\n"  \
  "smlabt %[other], %[f], r9, %[other]\n" \
  "add %[x], #64\n" STORED("%[sum]") STORED("%[other]")
  MEMORY_WORDS(
      e,
      memory_word(channel),
      memory_word(columns),
      memory_word(out),
      memory_word(end),
      memory_word(last),
      memory_word(order));
  __asm__ volatile(
      PUSH_MEMORY("5, 4, 3, 2, 1, 0", "%[e]", "%[f]") "3:\n"
      "ldr %[e], " IN_MEMORY(channel, 0) "\n"
      "ldr %[x], " IN_MEMORY(columns, 1) "\n"
      "ldr %[to], " IN_MEMORY(out, 2) "\n"
      "ldmia %[e]!, {r4, r5, r6, r8, r9, r10, r11}\n"
      "str %[e], " IN_MEMORY(channel, 0) "\n"
      "add %[e], %[x], #8\n"
      "add %[f], %[to], #1\n"
      "str %[e], " IN_MEMORY(columns, 1) "\n"
      "str %[f], " IN_MEMORY(out, 2) "\n"
      "ldr %[e], " IN_MEMORY(order, 5) "\n"
      "lsls %[e], #31\n"
      "bmi 2f\n"
      "bcs 4f\n"
      "1:\n" OUTPUT "2:\n" OUTPUT
      "ldr %[e], " IN_MEMORY(end, 3) "\n"
      "cmp %[x], %[e]\n"
      "beq 5f\n"
      "ldr %[e], " IN_MEMORY(order, 5) "\n"
      "cmp %[e], #2\n"
      "bcc 1b\n"
      "4:\n" TWO_NEIGHBOURS
      "ldr %[e], " IN_MEMORY(end, 3) "\n"
      "cmp %[x], %[e]\n"
      "bne 4b\n"
      "5:\n"
      "add %[e], #8\n"
      "str %[e], " IN_MEMORY(end, 3) "\n"
      "ldr %[e], " IN_MEMORY(channel, 0) "\n"
      "ldr %[f], " IN_MEMORY(last, 4) "\n"
      "cmp %[e], %[f]\n"
      "bne 3b\n" POP_MEMORY(6)
      : [x] "=&r"(x),
        [to] "=&r"(to),
        [e] MEMORY_ADDRESS(e),
        [f] "=&r"(f),
        [sum] "=&r"(sum),
        [other] "=&r"(other) WITH_GCC(, [channel] "+m"(channel),
        [columns] "+m"(columns),
        [out] "+m"(out),
        [end] "+m"(end))
      : WITH_GCC([last] "m"(last), [order] "m"(order), ) [output] "r"(output)
      : "memory", "cc", "r4", "r5", "r6", "r8", "r9", "r10", "r11");
#undef TWO_NEIGHBOURS
#undef OUTPUT
#undef STORED
}

#else

/// Like multiply_row(), with three elements whose inputs are `step` apart.
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

/// What depthwise_pixel() of packed_mve.h does, without its instructions.
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

// The equivalent of these instructions for tests on the host, which run programs for DSP.

struct ColumnChannels {
  const PackedParts& parts;
  int32_t channel;
  const int8_t* weights;
};

/// Columns only have their three words.
void expand_columns(
    const uint32_t* p0,
    const uint32_t* p1,
    const uint32_t* p2,
    int32_t columns,
    uint32_t* to) {
  for (int32_t i = 0; i < columns; ++i) {
    to[0] = p0[i];
    to[1] = p1[i];
    to[2] = p2[i];
    to += kColumnWords;
  }
}

void columns_to_outputs(
    const ColumnChannels& group,
    int32_t first,
    const uint32_t* columns,
    int32_t width,
    uint32_t /*output*/,
    int8_t* out) {
  const PackedLayer& layer = *group.parts.layer;
  for (int32_t x = 0; x < width; ++x) {
    for (int32_t i = first; i < 4; ++i) {
      int32_t sum = group.parts.bias[group.channel + i];
      for (int32_t tap = 0; tap < 9; ++tap) {
        const uint32_t* const word = columns + tap % 3 * kColumnWords + tap / 3;
        const int8_t value = reinterpret_cast<const int8_t*>(word)[i];
        sum = wrapping_add(sum, value * group.weights[4 * tap + i]);
      }
      out[i] = scaled(group.parts, sum, group.channel + i);
    }
    columns += layer.stride[1] * kColumnWords;
    out += layer.channels;
  }
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

/// How depthwise_columns() computes windows of three by three.
class ThreeByThree final {
 public:
  ET_INLINE ThreeByThree(const PackedLayer& layer, const Window& width)
      : output_(two_halves(layer.channels, addend_of(layer))), used_(columns(layer, width)) {}

  ET_INLINE int32_t rows() const {
    return 3;
  }

  /// Output channels per input channel.
  ET_INLINE int32_t times() const {
    return 1;
  }

  /// Columns of an image, with the padding beside it, that are expanded.
  static int32_t columns(const PackedLayer& layer, const Window& width) {
    return (width.out - 1) * layer.stride[1] + 3;
  }

  static int64_t scratch_words(const PackedLayer& layer, const Window& width) {
    return kColumnWords * int64_t{columns(layer, width)};
  }

  using Channels = ColumnChannels;

  ET_INLINE ColumnChannels prepare(
      const PackedParts& parts,
      int32_t channel,
      const int8_t* weights,
      uint32_t* /*scratch*/) const {
    return ColumnChannels{parts, channel, weights};
  }

  /// A row of outputs, of a group's channels from `first` on.
  ET_INLINE void compute(
      const PackedParts& /*parts*/,
      const ColumnChannels& channels,
      const WordRows& rows,
      int32_t first,
      const Window& width,
      uint32_t* scratch,
      int8_t* out) const {
    const uint32_t* const second = rows.after(rows.oldest);
    expand_columns(rows.oldest, second, rows.after(second), used_, scratch);
    columns_to_outputs(channels, first, scratch, width.out, output_, out);
  }

 private:
  uint32_t output_;
  int32_t used_;
};

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
      "ldr r4, [%[first]]\n"
      "ldr r6, [%[second]]\n"
      "sxtb16 r8, r4, ror #8\n"
      "sxtb16 r4, r4\n"
      "sxtb16 r10, r6, ror #8\n"
      "sxtb16 r6, r6\n"
      "pkhtb r9, r6, r4, asr #16\n"
      "pkhbt r4, r4, r6, lsl #16\n"
      "pkhbt r6, r8, r10, lsl #16\n"
      "pkhtb r10, r10, r8, asr #16\n"
      "stmia %[to], {r4, r6, r9, r10}\n"
      "add %[first], %[from_step]\n"
      "add %[second], %[from_step]\n"
      "add %[to], %[to_step]\n"
      "cmp %[to], %[end]\n"
      "bne 1b\n"
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
      "tst %[a], #1\n"
      "bne 2f\n"
      "1:\n" FOUR_PAIRS "2:\n" FOUR_PAIRS
      "ldr %[a], %[end]\n"
      "cmp %[x], %[a]\n"
      "bne 1b\n"
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

/// How depthwise_columns() computes any windows: two products at a time, of elements above each
/// other and, in the last one of an odd number of rows, of elements side by side.
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

  struct Channels {
    int32_t channel;
  };

  /// Writes pairs of weights to the beginning of `scratch`, in the order in which they are used.
  ET_INLINE Channels prepare(
      const PackedParts& /*parts*/,
      int32_t channel,
      const int8_t* weights,
      uint32_t* scratch) const {
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
    return {channel};
  }

  /// As ThreeByThree::compute().
  ET_INLINE void compute(
      const PackedParts& parts,
      const Channels& channels,
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
      to_outputs(parts, channels.channel, first, outputs, places, out);
      out += outputs * parts.layer->channels;
    }
  }

 private:
  /// The order of expanded columns: first every `period`th one, then those that come after these.
  struct Order {
    int32_t period;
    /// Columns of each of them, as many as the first one has.
    int32_t each;

    ET_INLINE int32_t columns() const {
      return period * each;
    }

    ET_INLINE int32_t place(int32_t column) const {
      return column % period * each + column / period;
    }
  };

  /// Where to_outputs() reads.
  struct Places {
    const uint32_t* weights;
    const uint32_t* expanded;
    Order upright;
    const uint32_t* last;
    Order others;
  };

  /// Columns under the windows of outputs.
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

/// A depthwise convolution for DSP, four channels after four.
template <class Windows>
ET_NOINLINE void depthwise_columns(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const Windows windows(layer, images.width);
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
    const typename Windows::Channels prepared = windows.prepare(parts, result, weights, rows_end);
    weights += 4 * parts.inner;
    const int8_t* from = in + c;
    int8_t* to = out + result;
    for (int32_t n = 0; n < images.batch; ++n) {
      std::fill_n(rows, windows.rows() * columns, padding);
      uint32_t* oldest = rows;
      int32_t row = -layer.padding[0];
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
        windows.compute(parts, prepared, all, first, images.width, rows_end, to);
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

/// Four channels from `channel` on of a depthwise convolution at one position.
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

/// A depthwise convolution that is not for DSP, pixel by pixel.
void depthwise_rows(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t kernel = layer.kernel[0];
  const int32_t padding = layer.padding[0];
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
      for (int32_t x = 0; x < images.width.out; ++x) {
        const int32_t offset = x * layer.stride[1] * channels;
        depthwise_pixel(parts, rows, offset, out);
        out += channels;
      }
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
}

#endif

} // namespace

int64_t depthwise_scratch(const PackedParts& parts, const Window& width) {
  const PackedLayer& layer = *parts.layer;
  if (is_channelwise(layer)) {
    return 0;
  }
#if !defined(__ARM_FEATURE_MVE) && (defined(__ARM_FEATURE_DSP) || !defined(__thumb__))
  if (layer.arrangement == Arrangement::Dsp) {
    // The rows under a window, of four channels, and these expanded.
    const int64_t columns = int64_t{width.in} + 2 * layer.padding[1];
    const int64_t rows = window_rows(layer);
    const int64_t expanded = is_three_by_three(layer) ? ThreeByThree::scratch_words(layer, width)
                                                      : Pairs::scratch_words(layer, width);
    return 4 * (rows * columns + expanded);
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
  const int32_t pixels = images.batch * images.height.out * images.width.out;
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
      depthwise_columns<ThreeByThree>(parts, images, in, scratch, out);
    } else if ((needs & kNeedsOthers) != 0) {
      depthwise_columns<Pairs>(parts, images, in, scratch, out);
    }
  }
#endif
#if !defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_MVE)
  if (layer.arrangement != Arrangement::Dsp) {
    depthwise_rows(parts, images, in, scratch, out);
  }
#endif
  clamp_outputs(layer, out, pixels * layer.channels);
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
