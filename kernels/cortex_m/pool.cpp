#include "kernels/cortex_m/pool.h"

#include <type_traits>

#include "kernels/cortex_m/dsp.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

namespace {

/// The values under a window, of one channel.
struct Values {
  const int8_t* first;
  int32_t rows;
  int32_t columns;
  int32_t row_step;
  int32_t column_step;

  int32_t count() const {
    return rows * columns;
  }

  /// The last one. There is at least one.
  const int8_t* last() const {
    return first + (rows - 1) * row_step + (columns - 1) * column_step;
  }

  /// Calls `take` for each value, row by row.
  template <class Take>
  void each(Take&& take) const {
    const int8_t* row = first;
    for (int32_t i = rows; i > 0; --i) {
      const int8_t* value = row;
      for (int32_t j = columns; j > 0; --j) {
        take(value);
        value += column_step;
      }
      row += row_step;
    }
  }
};

/// Makes channels of all columns of a row, if they are contiguous and each has windows of its own:
/// more are then pooled at a time.
ET_INLINE void take_columns(PoolWindows& windows, Image& in_shape, Image& out_shape) {
  Window& width = windows.width;
  const auto is_dense = [](const Image& image) {
    return image.column_step == image.channels && (image.channel_step == 1 || image.channels == 1);
  };
  if (width.kernel != 1 || width.stride != 1 || width.padding != 0 || !is_dense(in_shape) ||
      !is_dense(out_shape)) {
    return;
  }
  for (Image* const shape : {&in_shape, &out_shape}) {
    shape->channels *= shape->width;
    shape->channel_step = 1;
    shape->width = 1;
  }
  width.in = width.out = 1;
}

/// Used if fewer channels than there are lanes are computed one by one.
struct NoRest {};

/**
 * Calls `one(values, common, out)` for each result; or, if channels are contiguous, `some(values,
 * common, out)` for `lanes` channels at a time as long as possible, and `rest(values, common,
 * count, out)` for the remaining `count`, unless it is NoRest. `common` is the result of
 * `begin(values)` for all of a window's channels.
 */
template <class Begin, class One, class Some, class Rest = NoRest>
void pool(
    PoolWindows windows,
    Image in_shape,
    const int8_t* in,
    Image out_shape,
    int8_t* out,
    int32_t lanes,
    Begin&& begin,
    One&& one,
    Some&& some,
    [[maybe_unused]] Rest&& rest = {}) {
  take_columns(windows, in_shape, out_shape);
  const bool side_by_side = in_shape.channel_step == 1 && out_shape.channel_step == 1;
  const int32_t grouped = side_by_side ? out_shape.channels / lanes * lanes : 0;
  for (int32_t n = 0; n < out_shape.batch; ++n) {
    for (int32_t y = 0; y < out_shape.height; ++y) {
      const Taps rows(windows.height, y);
      for (int32_t x = 0; x < out_shape.width; ++x) {
        const Taps columns(windows.width, x);
        Values values = {
            in + n * in_shape.batch_step + (rows.origin + rows.begin) * in_shape.row_step +
                (columns.origin + columns.begin) * in_shape.column_step,
            static_cast<int32_t>(rows.end - rows.begin),
            static_cast<int32_t>(columns.end - columns.begin),
            in_shape.row_step,
            in_shape.column_step};
        int8_t* pixel =
            out + n * out_shape.batch_step + y * out_shape.row_step + x * out_shape.column_step;
        const auto common = begin(values);
        int32_t c = 0;
        for (; c < grouped; c += lanes) {
          some(values, common, pixel);
          values.first += lanes;
          pixel += lanes;
        }
        if constexpr (!std::is_same_v<Rest, NoRest>) {
          if (side_by_side && c < out_shape.channels) {
            rest(values, common, out_shape.channels - c, pixel);
            continue;
          }
        }
        for (; c < out_shape.channels; ++c) {
          one(values, common, pixel);
          values.first += in_shape.channel_step;
          pixel += out_shape.channel_step;
        }
      }
    }
  }
}

#if defined(__ARM_FEATURE_MVE)

constexpr int32_t kMaxLanes = 16;

void max_lanes(const Values& values, Range range, int8_t* out) {
  int8x16_t largest = vdupq_n_s8(-128);
  values.each([&](const int8_t* value) { largest = vmaxq_s8(largest, vldrbq_s8(value)); });
  largest = vmaxq_s8(largest, vdupq_n_s8(static_cast<int8_t>(range.min)));
  vstrbq_s8(out, vminq_s8(largest, vdupq_n_s8(static_cast<int8_t>(range.max))));
}

/// Does the same for fewer than kMaxLanes channels.
void max_some_lanes(const Values& values, Range range, int32_t count, int8_t* out) {
  const mve_pred16_t used = vctp8q(static_cast<uint32_t>(count));
  int8x16_t largest = vdupq_n_s8(-128);
  values.each([&](const int8_t* value) { largest = vmaxq_s8(largest, vldrbq_z_s8(value, used)); });
  largest = vmaxq_s8(largest, vdupq_n_s8(static_cast<int8_t>(range.min)));
  vstrbq_p_s8(out, vminq_s8(largest, vdupq_n_s8(static_cast<int8_t>(range.max))), used);
}

constexpr int32_t kSumLanes = 8;

void sum_lanes(const Values& values, int32_t* sums) {
  int32x4_t even = vdupq_n_s32(0);
  int32x4_t odd = even;
  int16x8_t sum = vdupq_n_s16(0);
  int32_t left = 0xff; // so many values of eight bits have a sum of 16
  const auto flush = [&] {
    even = vaddq_s32(even, vmovlbq_s16(sum));
    odd = vaddq_s32(odd, vmovltq_s16(sum));
  };
  values.each([&](const int8_t* value) {
    sum = vaddq_s16(sum, vldrbq_s16(value));
    if (--left == 0) {
      flush();
      sum = vdupq_n_s16(0);
      left = 0xff;
    }
  });
  flush();
  const int32x4x2_t both = {{even, odd}};
  vst2q_s32(sums, both);
}

#else

constexpr int32_t kMaxLanes = 4;

uint32_t four_bytes(int32_t value) {
  return 0x01010101u * (static_cast<uint32_t>(value) & 0xffu);
}

void max_lanes(const Values& values, Range range, int8_t* out) {
  uint32_t largest = four_bytes(range.min);
  values.each(
      [&](const int8_t* value) { largest = choose_bytes<true>(largest, load_word(value)); });
  if (range.max < 127) {
    largest = choose_bytes<false>(largest, four_bytes(range.max));
  }
  std::memcpy(out, &largest, sizeof(largest));
}

constexpr int32_t kSumLanes = 4;

/// A function of its own: within a larger one the compiler would keep more on the stack.
__attribute__((noinline)) void sum_lanes(const Values& values, int32_t* sums) {
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#ifdef __ARM_FEATURE_DSP
  constexpr int32_t kMost = 0xff; // so many values of eight bits have a sum of 16
  // The rows of a window of one column are its columns: a turn of the inner loop is shorter.
  const bool is_column = values.columns == 1;
  const int32_t in_row = is_column ? values.rows : values.columns;
  const int32_t step = is_column ? values.row_step : values.column_step;
  const int8_t* row = values.first;
  int16x2_t even = 0;
  int16x2_t odd = 0;
  int32_t left = kMost;
  const auto flush = [&] {
    s0 += static_cast<int16_t>(even);
    s1 += static_cast<int16_t>(odd);
    s2 += even >> 16;
    s3 += odd >> 16;
    even = odd = 0;
    left = kMost;
  };
  for (int32_t rows = is_column ? 1 : values.rows; rows > 0; --rows) {
    const int8_t* value = row;
    for (int32_t columns = in_row; columns > 0;) {
      const int32_t count = columns < left ? columns : left;
      for (int32_t i = count; i > 0; --i) {
        const uint32_t word = load_word(value);
        even = add_even_bytes(even, word);
        odd = add_odd_bytes(odd, word);
        value += step;
      }
      columns -= count;
      left -= count;
      if (left == 0) {
        flush();
      }
    }
    row += values.row_step;
  }
  flush();
#else
  values.each([&](const int8_t* value) {
    s0 = wrapping_add(s0, value[0]);
    s1 = wrapping_add(s1, value[1]);
    s2 = wrapping_add(s2, value[2]);
    s3 = wrapping_add(s3, value[3]);
  });
#endif
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

#endif

/// The nearest integer, halves to even, of a number below 2^22.
float round_to_even(float value) {
  constexpr float kRound = 12582912.0f; // 1.5 * 2^23
  return (value + kRound) - kRound;
}

/// The mean of values less a zero point, as single precision has it.
int32_t float_mean(const Values& values, int32_t zero_point, float scale) {
  float sum = 0.0f;
  values.each([&](const int8_t* value) {
    sum += rounded(static_cast<float>(*value - zero_point) * scale);
  });
  return static_cast<int32_t>(round_to_even(sum / static_cast<float>(values.count()) / scale));
}

/// Means of as many values, less a zero point, by their sums.
class Means final {
 public:
  explicit Means(int32_t count) {
    // Each of the `count` sums and the few other roundings of float_mean() are wrong by at most
    // 2^-24 of 256 * count, the mean by 2^-16 * (count + 4): only where it is so near to a half
    // that this matters is it to be computed.
    constexpr int32_t kMaxCount = 0x4000;
    if (count < kMaxCount) {
      twice_ = static_cast<uint32_t>(2 * count);
      near_ = (twice_ * static_cast<uint32_t>(count + 4)) >> 16;
    }
  }

  /// The mean of values with a sum, and the zero point again.
  int8_t apply(const Values& values, int32_t sum, int32_t zero_point, float scale) const {
    // The zero point, which is added again, changes nothing; 128 more are never negative.
    const uint32_t numerator = static_cast<uint32_t>(2 * sum) + twice_ * 128 + twice_ / 2;
    const uint32_t mean = numerator / twice_;
    const uint32_t rest = numerator - mean * twice_;
    if ET_LIKELY (rest > near_ && rest + near_ < twice_) {
      return static_cast<int8_t>(static_cast<int32_t>(mean) - 128);
    }
    return Range{-128, 127}.clamp(float_mean(values, zero_point, scale) + zero_point);
  }

 private:
  uint32_t twice_ = 1;
  /// Without a count that is small enough every remainder is near to a half.
  uint32_t near_ = 1;
};

/// The exponent of the number of a window's elements, if that is a power of two and single
/// precision has exact means of as many values, less a zero point, times a scale, so that only
/// halves are to be rounded, to even; otherwise 0.
int32_t shift_of_means(const PoolWindows& windows, int32_t zero_point, float scale) {
  // Differences have eight bits, sums of so many 16. Eight more, which the scale may have, are all
  // that a mantissa has.
  constexpr int32_t kMaxShift = 8;
  constexpr uint32_t kLastBits = 0xffff;
  const int32_t count = windows.height.kernel * windows.width.kernel;
  if ((count & (count - 1)) != 0 || !is_inside(windows.height) || !is_inside(windows.width) ||
      Range{-128, 127}.clamp(zero_point) != zero_point) {
    return 0;
  }
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  int32_t shift = 0;
  while (count >> shift > 1) {
    ++shift;
  }
  return (bits & kLastBits) == 0 && shift <= kMaxShift ? shift : 0;
}

/// Returns the mean of 2^shift values from their sum; halves are rounded so that the difference
/// from the zero point is even.
ET_INLINE int8_t shifted_mean(int32_t sum, int32_t zero_point, int32_t shift) {
  const int32_t is_up = ((sum >> shift) ^ zero_point) & 1;
  return static_cast<int8_t>((sum + (1 << (shift - 1)) - 1 + is_up) >> shift);
}

/// Stores kSumLanes means of 2^shift values, which are at most 256.
ET_INLINE void shifted_lanes(const Values& values, int32_t zero_point, int32_t shift, int8_t* out) {
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
  int16x2_t even = 0;
  int16x2_t odd = 0;
  values.each([&](const int8_t* value) {
    const uint32_t word = load_word(value);
    even = add_even_bytes(even, word);
    odd = add_odd_bytes(odd, word);
  });
  out[0] = shifted_mean(static_cast<int16_t>(even), zero_point, shift);
  out[1] = shifted_mean(static_cast<int16_t>(odd), zero_point, shift);
  out[2] = shifted_mean(even >> 16, zero_point, shift);
  out[3] = shifted_mean(odd >> 16, zero_point, shift);
#else
  int32_t sums[kSumLanes];
  sum_lanes(values, sums);
  for (int32_t i = 0; i < kSumLanes; ++i) {
    out[i] = shifted_mean(sums[i], zero_point, shift);
  }
#endif
}

} // namespace

#if !defined(__ARM_FEATURE_MVE)
void max_pool_of_squares(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out) {
  const int32_t last = out_shape.channels - 4;
  const uint32_t low = four_bytes(range.min);
  const uint32_t high = four_bytes(range.max);
  for (int32_t row = 0; row < out_shape.batch * out_shape.height; ++row) {
    const int32_t n = row / out_shape.height;
    const int32_t y = row - n * out_shape.height;
    const int8_t* pixel =
        in + n * in_shape.batch_step + y * windows.height.stride * in_shape.row_step;
    int8_t* to = out + n * out_shape.batch_step + y * out_shape.row_step;
    for (int32_t x = out_shape.width; x > 0; --x) {
      const int8_t* const right = pixel + in_shape.column_step;
      for (int32_t c = 0; c < last + 4; c += 4) {
        // The last four channels may overlap with those before them.
        const int32_t at = c < last ? c : last;
        const int8_t* const below = pixel + in_shape.row_step;
        uint32_t largest = choose_bytes<true>(low, load_word(pixel + at));
        largest = choose_bytes<true>(largest, load_word(right + at));
        largest = choose_bytes<true>(largest, load_word(below + at));
        largest = choose_bytes<true>(largest, load_word(right + in_shape.row_step + at));
        if (range.max < 127) {
          largest = choose_bytes<false>(largest, high);
        }
        std::memcpy(to + at, &largest, sizeof(largest));
      }
      pixel += windows.width.stride * in_shape.column_step;
      to += out_shape.column_step;
    }
  }
}
#endif

void max_pool_of_windows(
    const PoolWindows& windows,
    Range range,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out) {
  pool(
      windows,
      in_shape,
      in,
      out_shape,
      out,
      kMaxLanes,
      [](const Values&) { return 0; },
      [&](const Values& values, int, int8_t* result) {
        int32_t largest = -128;
        values.each([&](const int8_t* value) { largest = *value > largest ? *value : largest; });
        *result = range.clamp(largest);
      },
      [&](const Values& values, int, int8_t* results) { max_lanes(values, range, results); }
#if defined(__ARM_FEATURE_MVE)
      ,
      [&](const Values& values, int, int32_t count, int8_t* results) {
        max_some_lanes(values, range, count, results);
      }
#endif
  );
}

void avg_pool(
    const PoolWindows& windows,
    int32_t zero_point,
    float scale,
    const Image& in_shape,
    const int8_t* in,
    const Image& out_shape,
    int8_t* out) {
  const int32_t shift = shift_of_means(windows, zero_point, scale);
  if (shift > 0) {
    pool(
        windows,
        in_shape,
        in,
        out_shape,
        out,
        kSumLanes,
        [](const Values&) { return 0; },
        [=](const Values& values, int, int8_t* result) {
          int32_t sum = 0;
          values.each([&](const int8_t* value) { sum += *value; });
          *result = shifted_mean(sum, zero_point, shift);
        },
        [=](const Values& values, int, int8_t* results) {
          shifted_lanes(values, zero_point, shift, results);
        });
    return;
  }
  const auto one = [&](const Values& values, const Means& means, int8_t* result) {
    int32_t sum = 0;
    values.each([&](const int8_t* value) { sum = wrapping_add(sum, *value); });
    *result = means.apply(values, sum, zero_point, scale);
  };
  const auto some = [&](Values values, const Means& means, int32_t count, int8_t* results) {
    int32_t sums[kSumLanes];
    sum_lanes(values, sums);
    for (int32_t i = 0; i < count; ++i) {
      results[i] = means.apply(values, sums[i], zero_point, scale);
      ++values.first;
    }
  };
  const int8_t* const in_end = in + (in_shape.batch - 1) * in_shape.batch_step +
      (in_shape.height - 1) * in_shape.row_step + (in_shape.width - 1) * in_shape.column_step +
      in_shape.channels;
  pool(
      windows,
      in_shape,
      in,
      out_shape,
      out,
      kSumLanes,
      [](const Values& values) { return Means(values.count()); },
      one,
      [&](const Values& values, const Means& means, int8_t* results) {
        some(values, means, kSumLanes, results);
      },
      [&](Values values, const Means& means, int32_t count, int8_t* results) {
        // More channels than there are may be summed, but nothing behind the last one.
        if (values.count() > 0 && in_end - values.last() >= kSumLanes) {
          some(values, means, count, results);
          return;
        }
        for (; count > 0; --count) {
          one(values, means, results++);
          ++values.first;
        }
      });
}

} // namespace torch::executor::native::cortex_m
