#include "kernels/cortex_m/softmax.h"

#include <cstring>

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/requantize.h"
#include "kernels/math/exp.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

namespace {

/// e^(value - most), of a value that is quantized.
ET_INLINE float exponential(int32_t value, float scale, float most) {
  return math::exp_nonpositive(rounded(static_cast<float>(value) * scale) - most);
}

__attribute__((noinline)) float exponential_again(int32_t value, float scale, float most) {
  return exponential(value, scale, most);
}

/// The index of the maximum's exponential; that of a value d below it is d less.
constexpr int32_t kLast = 255;

/// The fractional bits of the factor of a row, whose result has eight integer bits.
constexpr int32_t kFactorBits = 30;
constexpr int32_t kResultShift = kFactorBits - 8;
constexpr uint32_t kHalf = 1u << (kResultShift - 1);

/// Returns the factor of exponentials for their share of a sum. Only a corrupted program has a sum
/// of zero.
inline uint32_t factor_of(uint32_t sum) {
  return (1u << kFactorBits) / (sum == 0 ? 1 : sum);
}

/// Returns the maximum of `count` values that are `step` apart.
ET_INLINE int32_t largest_of(const int8_t* in, size_t count, size_t step) {
  int32_t largest = -128;
  for (size_t i = 0; i < count; ++i, in += step) {
    largest = *in > largest ? *in : largest;
  }
  return largest;
}

/// Calls a function `count` times, if `kFour` four times in each step of a loop.
template <bool kFour, class Function>
ET_INLINE void repeat(size_t count, Function function) {
  for (; kFour && count >= 4; count -= 4) {
    function();
    function();
    function();
    function();
  }
  for (; count > 0; --count) {
    function();
  }
}

/// Returns the share of an exponential.
ET_INLINE int8_t share_of(uint32_t exponential, uint32_t factor) {
  const uint32_t result = (exponential * factor + kHalf) >> kResultShift;
  // A result of 256, from a single value, becomes 255.
  return static_cast<int8_t>(result - (result >> 8) - 128);
}

/// Computes softmax_by_table() for values that are `step` apart.
template <bool kFour>
ET_INLINE void weigh(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    int32_t largest,
    const int16_t* exponentials) {
  const int16_t* const table = exponentials + (kLast - largest);
  uint32_t sum = 0;
  const int8_t* from = in;
  repeat<kFour>(count, [&]() {
    sum += static_cast<uint32_t>(table[*from]);
    from += step;
  });
  const uint32_t factor = factor_of(sum);
  repeat<kFour>(count, [&]() {
    *out = share_of(static_cast<uint32_t>(table[*in]), factor);
    in += step;
    out += step;
  });
}

#if defined(__ARM_FEATURE_MVE)

/// softmax_by_table() of neighbours, or masked_softmax_by_table().
template <bool kMasked>
ET_INLINE void weigh_vectors(
    const int8_t* in,
    int8_t* out,
    size_t count,
    const int16_t* exponentials,
    const int8_t* mask) {
  const auto total = static_cast<int32_t>(count);
  int8_t most = -128;
  for (int32_t i = 0; i < total; i += 16) {
    mve_pred16_t active = vctp8q(static_cast<uint32_t>(total - i));
    if (kMasked) {
      active = vcmpneq_m_n_s8(vldrbq_z_s8(mask + i, active), 0, active);
    }
    most = vmaxvq_p_s8(most, vldrbq_z_s8(in + i, active), active);
  }
  const auto* const table = reinterpret_cast<const uint16_t*>(exponentials);
  const int32_t offset = kLast - most;
  uint32_t sum = 0;
  for (int32_t i = 0; i < total; i += 8) {
    mve_pred16_t active = vctp16q(static_cast<uint32_t>(total - i));
    if (kMasked) {
      active = vcmpneq_m_n_s16(vldrbq_z_s16(mask + i, active), 0, active);
    }
    const int16x8_t places =
        vaddq_n_s16(vldrbq_z_s16(in + i, active), static_cast<int16_t>(offset));
    const uint16x8_t values =
        vldrhq_gather_shifted_offset_z_u16(table, vreinterpretq_u16_s16(places), active);
    sum = vaddvaq_u16(sum, values);
  }
  const uint32_t factor = factor_of(sum);
  for (int32_t i = 0; i < total; i += 4) {
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(total - i));
    mve_pred16_t read = active;
    if (kMasked) {
      read = vcmpneq_m_n_s32(vldrbq_z_s32(mask + i, active), 0, active);
    }
    const int32x4_t places = vaddq_n_s32(vldrbq_z_s32(in + i, active), offset);
    const uint32x4_t values =
        vldrhq_gather_shifted_offset_z_u32(table, vreinterpretq_u32_s32(places), read);
    const uint32x4_t shares = vmlaq_n_u32(vdupq_n_u32(kHalf), values, factor);
    const uint32x4_t result = vminq_u32(vshrq_n_u32(shares, kResultShift), vdupq_n_u32(255));
    vstrbq_p_s32(out + i, vsubq_n_s32(vreinterpretq_s32_u32(result), 128), active);
  }
}

/// softmax_by_table() of neighbours.
void weigh_row(const int8_t* in, int8_t* out, size_t count, const int16_t* exponentials) {
  weigh_vectors<false>(in, out, count, exponentials, nullptr);
}

#else

#if defined(__ARM_FEATURE_DSP)

/// The largest of four bytes.
ET_INLINE int32_t largest_byte(uint32_t word) {
  int32_t largest = -128;
  for (int32_t byte = 0; byte < 4; ++byte, word >>= 8) {
    const auto value = static_cast<int8_t>(word);
    largest = value > largest ? value : largest;
  }
  return largest;
}

#endif

/// softmax_by_table() of neighbours.
void weigh_row(const int8_t* in, int8_t* out, size_t count, const int16_t* exponentials) {
  size_t i = 0;
  int32_t largest = -128;
#if defined(__ARM_FEATURE_DSP)
  if (count >= 8) {
    uint32_t most = load_word(in);
    for (i = 4; i + 4 <= count; i += 4) {
      most = choose_bytes<true>(most, load_word(in + i));
    }
    largest = largest_byte(most);
  }
#endif
  const int32_t rest = largest_of(in + i, count - i, 1);
  weigh<true>(in, out, count, 1, rest > largest ? rest : largest, exponentials);
}

/// Returns the distance of a value above -128; 0 if it is left out.
ET_INLINE int32_t height_of(int8_t value, int8_t mask) {
  return (value + 128) & mask;
}

/// Returns the distance above -128 of the largest of the values that are not left out.
ET_INLINE int32_t largest_height(const int8_t* in, size_t count, const int8_t* mask) {
  size_t i = 0;
  int32_t largest = 0;
#if defined(__ARM_FEATURE_DSP)
  constexpr uint32_t kLeast = 0x80808080;
  uint32_t most = kLeast;
  for (; i + 4 <= count; i += 4) {
    const uint32_t heights = (load_word(in + i) ^ kLeast) & load_word(mask + i);
    most = choose_bytes<true>(most, heights ^ kLeast);
  }
  largest = largest_byte(most) + 128;
#endif
  for (; i < count; ++i) {
    const int32_t height = height_of(in[i], mask[i]);
    largest = height > largest ? height : largest;
  }
  return largest;
}

#endif

} // namespace

void softmax_by_table(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    const int16_t* exponentials) {
  if (step == 1) {
    weigh_row(in, out, count, exponentials);
  } else {
    weigh<false>(in, out, count, step, largest_of(in, count, step), exponentials);
  }
}

void masked_softmax_by_table(
    const int8_t* in,
    int8_t* out,
    size_t count,
    const int16_t* exponentials,
    const int8_t* mask) {
  const size_t all = count;
  // Causal masks exclude half of the elements, at the ends.
  while (count > 1 && mask[count - 1] == 0) {
    --count;
  }
#if defined(__ARM_FEATURE_MVE)
  weigh_vectors<true>(in, out, count, exponentials, mask);
#else
  const int16_t* const table = exponentials + (kLast - largest_height(in, count, mask));
  uint32_t sum = 0;
  size_t i = 0;
  repeat<true>(count, [&]() {
    sum += static_cast<uint32_t>(table[height_of(in[i], mask[i])] & mask[i]);
    ++i;
  });
  const uint32_t factor = factor_of(sum);
  i = 0;
  repeat<true>(count, [&]() {
    const auto exponential = static_cast<uint32_t>(table[height_of(in[i], mask[i])] & mask[i]);
    out[i] = share_of(exponential, factor);
    ++i;
  });
#endif
  std::memset(out + count, -128, all - count);
}

void softmax(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    int32_t zero_point,
    float scale) {
  int32_t largest = -128;
  for (size_t i = 0; i < count; ++i) {
    const int32_t value = in[i * step];
    largest = value > largest ? value : largest;
  }
  const float most = static_cast<float>(largest - zero_point) * scale;
  // The first ones are kept.
  constexpr size_t kKept = 64;
  float kept[kKept];
  float sum = 0.0f;
  for (size_t i = 0; i < count; ++i) {
    const float value = exponential(in[i * step] - zero_point, scale, most);
    sum += value;
    if (i < kKept) {
      kept[i] = value;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    // Adding 1.5 * 2^23 rounds halves to even: the integer then is in the lowest bits. Invalid
    // numbers, such as in a corrupted program whose output overlaps the input, become some integer,
    // too.
    constexpr float kRound = 12582912.0f;
    constexpr uint32_t kRoundBits = 0x4B400000;
    const float value =
        i < kKept ? kept[i] : exponential_again(in[i * step] - zero_point, scale, most);
    const float nearest = rounded(value / sum * 256.0f) + kRound;
    uint32_t bits;
    std::memcpy(&bits, &nearest, sizeof(bits));
    out[i * step] = Range{-128, 127}.clamp(static_cast<int32_t>(bits - kRoundBits - 128));
  }
}

} // namespace torch::executor::native::cortex_m
