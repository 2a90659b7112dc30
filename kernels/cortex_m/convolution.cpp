#include "kernels/cortex_m/convolution.h"

#include <cstddef>
#include <cstring>

#include "kernels/cortex_m/dot.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch::executor::native::cortex_m {

namespace {

/// The reads of an output position along one dim: kernel elements `tap`, `tap + tap_step` and so
/// on, with the inputs at `position`, `position + step` and so on.
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

/// Weights of `inner` input channels are contiguous.
struct Kernel {
  const int8_t* weight;
  int32_t inner;
  /// The distances between output channels, and between kernel elements.
  int32_t channel_step;
  int32_t tap_step;
};

/// The inputs of an output: rows and columns of the kernel, with the strides of their inputs and of
/// their weights, and `inner` inputs each with a stride of `channel_step`.
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

/// Computes the outputs of a pixel whose channels all read the same input channel.
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

/// Copies the inputs of an area to their offsets in a kernel whose rows have `row_taps` elements.
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

/// Computes the outputs of a pixel for channels [first, first + count), which all read the same
/// area. Their weights are `weight_step` apart. Inlined into a larger function, the compiler would
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
    // If there is no second channel, the first one is computed twice.
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
  const bool is_depthwise = kernel.inner == 1 && kernel.channel_step == 1 && group_channels == 1 &&
      in_shape.channel_step == 1 && out_shape.channel_step == 1;
  const bool is_gathered = !is_depthwise && find_reads == reads_of_convolution &&
      kernel.tap_step == kernel.inner && kernel_size <= kGathered &&
      zero == -parameters.input_offset;
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

#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)

/// Inputs of an output that are expanded at a time, a multiple of four: nine elements of a kernel
/// with eight channels each.
constexpr int32_t kExpanded = 72;
/// Elements of the largest kernel.
constexpr int32_t kMaxTaps = 25;
/// The number of output channels whose sums wait for the next inputs.
constexpr int32_t kWaiting = 16;
/// Products for which sums have less than 2^29, whatever they are of.
constexpr int32_t kShortSum = 0x3fff;

/// The inputs of all outputs along one dim whose distance is a multiple of `distance`: Reads of the
/// first of them, wherever it is. Successive ones are `between` inputs apart.
struct Phase {
  Reads reads;
  int32_t distance = 1;
  int32_t between = 1;
  int32_t first = 0;
  int32_t count = 0;
};

Phase phase_of_convolution(const Window& window, int32_t out) {
  Phase phase;
  phase.reads = {0, 1, -window.padding, window.dilation, window.kernel};
  phase.between = window.stride;
  phase.count = out;
  return phase;
}

/// Does the same as reads_of_transpose(), including elements outside of the input.
Phase phase_of_transpose(const Window& window, int32_t out, int32_t first) {
  Phase phase;
  Reads& reads = phase.reads;
  phase.first = first;
  phase.distance = window.stride;
  phase.count = (out - 1 - first) / window.stride + 1;
  int32_t at = first + window.padding;
  while (reads.tap < window.kernel && at % window.stride != 0) {
    at -= window.dilation;
    ++reads.tap;
  }
  if (reads.tap >= window.kernel) {
    return phase;
  }
  int32_t distance = window.dilation;
  while (distance % window.stride != 0 && reads.tap + reads.tap_step < window.kernel) {
    distance += window.dilation;
    ++reads.tap_step;
  }
  reads.position = at / window.stride;
  reads.count = (window.kernel - 1 - reads.tap) / reads.tap_step + 1;
  reads.step = reads.count > 1 ? -(distance / window.stride) : 0;
  return phase;
}

/// The end of a run of expanded inputs whose weights are contiguous, and the distance to the next
/// run. The last one is followed by one with the same end.
struct Segment {
  const uint32_t* end;
  int32_t jump;
};

/// The inputs of all lanes as pairs of 16-bit numbers: for every four inputs, 0 and 2 of all lanes,
/// then 1 and 3. The assembler code relies on this layout.
struct Expanded {
  uint32_t inputs[kExpanded / 2 * kLanes];
  // There may be as many as elements of a kernel, of four channels.
  Segment segments[kExpanded / 4 + 2];
};
static_assert(offsetof(Expanded, segments) == 576 && sizeof(Segment) == 8);

/// Adds the products of all lanes with the weights of two channels to `sums`: the first channel's
/// four, then the second's.
__attribute__((naked)) void multiply_lanes(
    const Expanded& /*expanded*/,
    const int8_t* /*first*/,
    const int8_t* /*second*/,
    int32_t* /*sums*/) {
  // Sums take eight registers, and only without a frame there are enough others. 1.1 instructions
  // per product. r0 inputs, r1 and r2 weights, r4-r11 sums; on the stack the next jump and the end.
#define LANE(sum, other)         \
  "ldr r3, [r0], #4\n"           \
  "smlad " sum ", r3, r12, " sum \
  "\n"                           \
  "smlad " other ", r3, lr, " other "\n"
#define LANES LANE("r4", "r8") LANE("r5", "r9") LANE("r6", "r10") LANE("r7", "r11")
  __asm__ volatile(
      "push {r3-r11, lr}; add r4, r0, #576; ldr r5, [r4], #4; push {r4, r5}; ldmia r3, {r4-r11}\n"
      "1:\n"
      "ldr r12, [r1]; ldr lr, [r2]; sxtb16 r12, r12\n"
      "sxtb16 lr, lr\n" LANES
      "ldr r12, [r1], #4; ldr lr, [r2], #4; sxtb16 r12, r12, ror #8\n"
      "sxtb16 lr, lr, ror #8\n" LANES
      "ldr r3, [sp, #4]; cmp r3, r0; bne 1b; ldr r3, [sp]; ldr r12, [r3], #4; ldr lr, [r3], #4\n"
      "str r3, [sp]; str lr, [sp, #4]; add r1, r12; add r2, r12; cmp lr, r0; bne 1b\n"
      "ldr r3, [sp, #8]; stmia r3, {r4-r11}; add sp, #8\n"
      "pop {r3-r11, pc}\n" ::
          : "memory");
#undef LANES
#undef LANE
}

/// Computes convolutions without packed weights, four outputs at a time: their inputs are expanded
/// to 16-bit pairs, which are multiplied with two channels' weights. All outputs of a phase use the
/// same weights; elements outside of the input are multiplied as zeros.
class LaneConvolution final {
 public:
  LaneConvolution(
      const ConvolutionParameters& parameters,
      const Image& in_shape,
      int32_t groups,
      const Kernel& kernel,
      const Image& out_shape)
      : parameters_(parameters),
        in_shape_(in_shape),
        kernel_(kernel),
        out_shape_(out_shape),
        groups_(groups),
        group_channels_(out_shape.channels / groups) {
    std::memset(padding_, -parameters.input_offset, sizeof(padding_));
  }

  /// Returns whether this class computes a convolution: others are faster if the channels are not a
  /// multiple of a word.
  static bool
  takes(const ConvolutionParameters& parameters, const Image& in_shape, const Kernel& kernel) {
    const int32_t rows = parameters.height.kernel;
    const int32_t columns = parameters.width.kernel;
    return in_shape.channel_step == 1 && kernel.inner > 0 && kernel.inner % 4 == 0 &&
        rows <= kMaxTaps && columns <= kMaxTaps && rows * columns <= kMaxTaps &&
        parameters.input_offset >= -127 && parameters.input_offset <= 128;
  }

  /// The outputs of a phase.
  void compute(const Phase& rows, const Phase& columns, const int8_t* in, int8_t* out) {
    taps_ = 0;
    for (int32_t i = 0; i < rows.reads.count; ++i) {
      const int32_t row = rows.reads.tap + i * rows.reads.tap_step;
      for (int32_t j = 0; j < columns.reads.count; ++j) {
        const int32_t column = columns.reads.tap + j * columns.reads.tap_step;
        weights_[taps_++] = (row * parameters_.width.kernel + column) * kernel_.inner;
      }
    }
    for (int32_t y = 0, x = 0; y < rows.count;) {
      int8_t* outs[kLanes];
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        if (y == rows.count) {
          // If there are fewer than four, the last one is computed again.
          for (int32_t tap = 0; tap < taps_; ++tap) {
            inputs_[tap][lane] = inputs_[tap][lane - 1];
          }
          outs[lane] = outs[lane - 1];
          continue;
        }
        find_inputs(
            rows.reads,
            rows.reads.position + y * rows.between,
            columns.reads,
            columns.reads.position + x * columns.between,
            lane);
        outs[lane] = out + (rows.first + y * rows.distance) * out_shape_.row_step +
            (columns.first + x * columns.distance) * out_shape_.column_step;
        if (++x == columns.count) {
          x = 0;
          ++y;
        }
      }
      for (int32_t group = 0; group < groups_; ++group) {
        group_outputs(in + group * kernel_.inner, group * group_channels_, outs);
      }
    }
  }

 private:
  /// Marks inputs that are outside of the image.
  static constexpr int32_t kBeside = -1;

  /// The position in the inputs of an output.
  struct Place {
    int32_t tap = 0;
    int32_t channel = 0;
  };

  /// Sets where a lane's inputs are.
  void
  find_inputs(const Reads& rows, int32_t row, const Reads& columns, int32_t left, int32_t lane) {
    int32_t tap = 0;
    for (int32_t i = 0; i < rows.count; ++i) {
      const bool is_row = static_cast<uint32_t>(row) < static_cast<uint32_t>(in_shape_.height);
      int32_t column = left;
      for (int32_t j = 0; j < columns.count; ++j) {
        const bool is_inside =
            is_row && static_cast<uint32_t>(column) < static_cast<uint32_t>(in_shape_.width);
        inputs_[tap++][lane] =
            is_inside ? row * in_shape_.row_step + column * in_shape_.column_step : kBeside;
        column += columns.step;
      }
      row += rows.step;
    }
  }

  /// All channels of a group, from `first` on.
  __attribute__((noinline)) void
  group_outputs(const int8_t* in, int32_t first, int8_t* const (&outs)[kLanes]) {
    const int32_t* const bias = parameters_.bias;
    const int32_t inputs = taps_ * kernel_.inner;
    const bool is_whole = inputs <= kExpanded;
    if (is_whole && inputs > 0) {
      expand(in, {});
    }
    for (int32_t begin = 0; begin < group_channels_; begin += kWaiting) {
      const int32_t rest = group_channels_ - begin;
      const int32_t count = rest < kWaiting ? rest : kWaiting;
      int32_t sums[kWaiting / 2][2 * kLanes];
      for (int32_t c = 0; c < count; c += 2) {
        const int32_t channel = first + begin + c;
        const int32_t s0 = bias == nullptr ? 0 : bias[channel];
        const int32_t s1 = bias == nullptr || c + 1 == count ? 0 : bias[channel + 1];
        int32_t* const to = sums[c / 2];
        to[0] = to[1] = to[2] = to[3] = s0;
        to[4] = to[5] = to[6] = to[7] = s1;
      }
      const int8_t* const weights = kernel_.weight + (first + begin) * kernel_.channel_step;
      for (Place place; place.tap < taps_;) {
        if (is_whole) {
          place.tap = taps_;
        } else {
          place = expand(in, place);
        }
        const int8_t* from = weights + first_weight_;
        for (int32_t c = 0; c < count; c += 2) {
          // If there is no second channel, the first one is computed twice.
          const int8_t* const second = c + 1 == count ? from : from + kernel_.channel_step;
          multiply_lanes(expanded_, from, second, sums[c / 2]);
          from += 2 * kernel_.channel_step;
        }
      }
      for (int32_t c = 0; c < count; ++c) {
        store(sums[c / 2] + c % 2 * kLanes, first + begin + c, outs);
      }
    }
  }

  /// Expands the inputs of all lanes from a position on, and returns the position of the next ones.
  __attribute__((noinline)) Place expand(const int8_t* in, Place place) {
    const int32_t inner = kernel_.inner;
    Segment* segment = expanded_.segments;
    int32_t room = kExpanded;
    int32_t next = weights_[place.tap] + place.channel;
    uint32_t* to = expanded_.inputs;
    first_weight_ = next;
    while (place.tap < taps_ && room > 0) {
      const int32_t weight = weights_[place.tap] + place.channel;
      if (weight != next) {
        *segment++ = {to, weight - next};
      }
      const int32_t rest = inner - place.channel;
      const int32_t count = rest < room ? rest : room;
      const int8_t* from[kLanes];
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t at = inputs_[place.tap][lane];
        from[lane] = at == kBeside ? padding_ : in + at + place.channel;
      }
      to = expand_words(from, count / 4, to);
      next = weight + count;
      room -= count;
      place.channel += count;
      if (place.channel == inner) {
        place.channel = 0;
        ++place.tap;
      }
    }
    *segment++ = {to, 0};
    segment->end = to;
    return place;
  }

  /// Writes, for each four inputs, 0 and 2 of all lanes, then 1 and 3.
  ET_INLINE uint32_t* expand_words(const int8_t* const (&from)[kLanes], int32_t words, uint32_t* to)
      const {
    const int16x2_t offsets = twice(parameters_.input_offset);
    const int8_t* p0 = from[0];
    const int8_t* p1 = from[1];
    const int8_t* p2 = from[2];
    const int8_t* p3 = from[3];
    for (; words > 0; --words) {
      const uint32_t w0 = load_word(p0);
      const uint32_t w1 = load_word(p1);
      const uint32_t w2 = load_word(p2);
      const uint32_t w3 = load_word(p3);
      to[0] = static_cast<uint32_t>(add_even_bytes(offsets, w0));
      to[1] = static_cast<uint32_t>(add_even_bytes(offsets, w1));
      to[2] = static_cast<uint32_t>(add_even_bytes(offsets, w2));
      to[3] = static_cast<uint32_t>(add_even_bytes(offsets, w3));
      to[4] = static_cast<uint32_t>(add_odd_bytes(offsets, w0));
      to[5] = static_cast<uint32_t>(add_odd_bytes(offsets, w1));
      to[6] = static_cast<uint32_t>(add_odd_bytes(offsets, w2));
      to[7] = static_cast<uint32_t>(add_odd_bytes(offsets, w3));
      p0 += 4;
      p1 += 4;
      p2 += 4;
      p3 += 4;
      to += 2 * kLanes;
    }
    return to;
  }

  /// The outputs of a channel in all lanes.
  void store(const int32_t* sums, int32_t channel, int8_t* const (&outs)[kLanes]) const {
    const Factor factor = {parameters_.multipliers[channel], parameters_.shifts[channel]};
    const int32_t bias = parameters_.bias == nullptr ? 0 : parameters_.bias[channel];
    const int32_t at = channel * out_shape_.channel_step;
    const bool is_short = kernel_.channel_step <= kShortSum && bias < 0x20000000 &&
        bias >= -0x20000000 && FoldedScale::takes(factor);
    if (is_short) {
      const FoldedScale scale(factor, parameters_.output_offset);
      const int8_t values[] = {
          scale.apply(2 * sums[0]),
          scale.apply(2 * sums[1]),
          scale.apply(2 * sums[2]),
          scale.apply(2 * sums[3])};
      const Range range = parameters_.range;
      const bool is_full = range.min == -128 && range.max == 127;
      outs[0][at] = is_full ? values[0] : range.clamp(values[0]);
      outs[1][at] = is_full ? values[1] : range.clamp(values[1]);
      outs[2][at] = is_full ? values[2] : range.clamp(values[2]);
      outs[3][at] = is_full ? values[3] : range.clamp(values[3]);
      return;
    }
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const int32_t scaled =
          wrapping_add(requantize(sums[lane], factor), parameters_.output_offset);
      outs[lane][at] = parameters_.range.clamp(scaled);
    }
  }

  const ConvolutionParameters& parameters_;
  const Image& in_shape_;
  const Kernel& kernel_;
  const Image& out_shape_;
  int32_t groups_;
  int32_t group_channels_;
  int32_t first_weight_ = 0;
  // Elements of the kernel, where their weights are, and the lanes' inputs in the image.
  int32_t taps_ = 0;
  int32_t weights_[kMaxTaps];
  int32_t inputs_[kMaxTaps][kLanes];
  int8_t padding_[kExpanded];
  Expanded expanded_;
};

/// Computes a convolution four outputs at a time, if that is possible.
bool convolve_lanes(
    const ConvolutionParameters& parameters,
    bool is_transposed,
    const Image& in_shape,
    const int8_t* in,
    int32_t groups,
    const Kernel& kernel,
    const Image& out_shape,
    int8_t* out) {
  if (!LaneConvolution::takes(parameters, in_shape, kernel)) {
    return false;
  }
  LaneConvolution lanes(parameters, in_shape, groups, kernel, out_shape);
  const Window& height = parameters.height;
  const Window& width = parameters.width;
  for (int32_t n = 0; n < out_shape.batch; ++n) {
    for (int32_t y = 0; y < (is_transposed ? height.stride : 1) && y < out_shape.height; ++y) {
      const Phase rows = is_transposed ? phase_of_transpose(height, out_shape.height, y)
                                       : phase_of_convolution(height, out_shape.height);
      for (int32_t x = 0; x < (is_transposed ? width.stride : 1) && x < out_shape.width; ++x) {
        const Phase columns = is_transposed ? phase_of_transpose(width, out_shape.width, x)
                                            : phase_of_convolution(width, out_shape.width);
        lanes.compute(rows, columns, in, out);
      }
    }
    in += in_shape.batch_step;
    out += out_shape.batch_step;
  }
  return true;
}

#else

/// Cores without these instructions compute one output after another.
constexpr bool convolve_lanes(
    const ConvolutionParameters& /*parameters*/,
    bool /*is_transposed*/,
    const Image& /*in_shape*/,
    const int8_t* /*in*/,
    int32_t /*groups*/,
    const Kernel& /*kernel*/,
    const Image& /*out_shape*/,
    int8_t* /*out*/) {
  return false;
}

#endif

/// Describes a kernel [out, height, width, inner].
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
  if (!convolve_lanes(parameters, false, in_shape, in, groups, kernel, out_shape, out)) {
    convolve(parameters, reads_of_convolution, in_shape, in, groups, kernel, out_shape, out);
  }
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
  if (!convolve_lanes(parameters, true, in_shape, in, 1, kernel, out_shape, out)) {
    convolve(parameters, reads_of_transpose, in_shape, in, 1, kernel, out_shape, out);
  }
}

} // namespace torch::executor::native::cortex_m
