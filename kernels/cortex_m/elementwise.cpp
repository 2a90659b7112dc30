#include "kernels/cortex_m/elementwise.h"

#include <cstring>

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/packed_scale.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

namespace {

/// The same as SHIFT_INT8 of the dialect's Python.
constexpr int32_t kAddShift = 20;

int32_t scale_input(int8_t value, int32_t zero_point, Factor factor) {
  return requantize((value - zero_point) * (1 << kAddShift), factor);
}

/// Returns whether a factor shifts to the right, or not at all.
bool is_narrow(Factor factor) {
  return factor.shift <= 0 && factor.shift >= -30;
}

/// Returns whether add() needs 32 bits only: as its inputs have 28 bits, sums doubled have less
/// than 31.
bool is_narrow(const AddParameters& parameters) {
  const Factor* const factors = parameters.factors;
  return is_narrow(factors[0]) && is_narrow(factors[1]) && FoldedScale::takes(factors[2]);
}

/// Returns whether a factor is a half, as that of the input with the larger scale is.
bool is_half(Factor factor) {
  return factor.multiplier == (1 << 30) && factor.shift == 0;
}

/// Returns element `i` of an input, whose stride is 1 unless it may be repeated.
template <bool kRepeats>
const int8_t* at(const int8_t* in, size_t i, int32_t step) {
  return in + (kRepeats ? i * static_cast<size_t>(step) : i);
}

#ifdef __ARM_FEATURE_MVE

/// The scale of an input of sums that need 32 bits only, in registers.
struct VectorFactor {
  int32_t addend;
  int32_t multiplier;
  /// Whether halves are rounded away from zero, which is the case if the factor shifts.
  int32_t rounds;
  int32x4_t shift;

  VectorFactor(int32_t zero_point, Factor factor)
      : addend(-zero_point * (1 << kAddShift)),
        multiplier(factor.multiplier),
        rounds(factor.shift < 0 ? 1 : 0),
        shift(vdupq_n_s32(factor.shift)) {}

  /// The contribution of four elements, or four times of one.
  template <bool kRepeats>
  ET_INLINE int32x4_t apply(const int8_t* in, int32_t step) const {
    int32x4_t value = kRepeats && step == 0 ? vdupq_n_s32(*in) : vldrbq_s32(in);
    value = vmlasq_n_s32(value, vdupq_n_s32(1 << kAddShift), addend);
    value = vqrdmulhq_n_s32(value, multiplier);
    return vrshlq_s32(vmlaq_n_s32(value, vshrq_n_s32(value, 31), rounds), shift);
  }
};

/**
 * Adds eight elements at a time, where the factor of `a`, input `index`, is a half, and that of `b`
 * shifts to the right. On Cortex-M55 neighbours that need the same unit take a cycle more, and
 * results take a cycle or two: both halves take turns, and some sums are multiplications by one.
 */
__attribute__((noinline WITH_GCC(, optimize("O2")))) void add_eights(
    const AddParameters& parameters,
    size_t index,
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t eights) {
  const Factor factor = parameters.factors[1 - index];
  constexpr int32_t kHalf = 1 << (kAddShift - 1);
  __asm__ volatile(
      "wls lr, %[eights], 2f\n"
      "1:\n"
      "vldrb.s32 q1, [%[b]], #4; vmlas.s32 q1, %q[bits], %[zero]; vqrdmulh.s32 q1, q1, "
      "%[multiplier]\n"
      "vldrb.s32 q2, [%[b]], #4; vmlas.s32 q2, %q[bits], %[zero]; vshr.s32 q3, q1, #31\n"
      "vmla.s32 q1, q3, %[one]; vqrdmulh.s32 q2, q2, %[multiplier]; vrshl.s32 q1, %[shift]\n"
      "vldrb.s32 q3, [%[a]], #4; vmla.s32 q1, q3, %[half]; vshr.s32 q5, q2, #31\n"
      "vmla.s32 q2, q5, %[one]; vadd.i32 q1, q1, %[a_zero]; vqrdmulh.s32 q1, q1, %[scale]\n"
      "vrshl.s32 q2, %[shift]; vldrb.s32 q5, [%[a]], #4; vmla.s32 q2, q5, %[half]\n"
      "vshr.s32 q3, q1, #31; vmla.s32 q1, q3, %[one]; vadd.i32 q2, q2, %[a_zero]\n"
      "vqrdmulh.s32 q2, q2, %[scale]; vrshl.s32 q1, q1, %q[shifts]; vshr.s32 q5, q2, #31\n"
      "vmla.s32 q2, q5, %[one]; vqmovnb.s32 q1, q1; vrshl.s32 q2, q2, %q[shifts]\n"
      "vqmovnt.s32 q1, q2; vqadd.s16 q1, q1, %[offset]; vmax.s16 q1, q1, %q[min]\n"
      "vmin.s16 q1, q1, %q[max]; vstrb.32 q1, [%[out]], #4; vshr.u32 q1, q1, #16\n"
      "vstrb.32 q1, [%[out]], #4\n"
      "le lr, 1b\n"
      "2:\n"
      : [a] "+l"(a), [b] "+l"(b), [out] "+l"(out)
      : [eights] "r"(eights),
        [zero] "r"(-parameters.zero_points[1 - index] * (1 << kAddShift)),
        [multiplier] "r"(factor.multiplier),
        [shift] "r"(factor.shift),
        [half] "r"(kHalf),
        [a_zero] "r"(-parameters.zero_points[index] * kHalf),
        [scale] "r"(parameters.factors[2].multiplier),
        [offset] "r"(parameters.zero_points[2]),
        [one] "r"(1),
        [bits] "w"(vdupq_n_s32(1 << kAddShift)),
        [shifts] "w"(vdupq_n_s32(parameters.factors[2].shift)),
        [min] "w"(vdupq_n_s16(static_cast<int16_t>(parameters.range.min))),
        [max] "w"(vdupq_n_s16(static_cast<int16_t>(parameters.range.max)))
      : "memory", "lr", "q1", "q2", "q3", "q5");
}

/// Adds four or eight elements at a time, and returns the number of processed elements.
template <bool kRepeats>
size_t add_side_by_side(
    const AddParameters& parameters,
    const int32_t (&steps)[2],
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t count) {
  size_t eights = 0;
  if constexpr (!kRepeats) {
    const size_t index = is_half(parameters.factors[0]) ? 0 : 1;
    if (is_half(parameters.factors[index]) && parameters.factors[1 - index].shift < 0) {
      eights = count & ~size_t{7};
      add_eights(parameters, index, index == 0 ? a : b, index == 0 ? b : a, out, eights / 8);
      a += eights;
      b += eights;
      out += eights;
    }
  }
  const VectorFactor first(parameters.zero_points[0], parameters.factors[0]);
  const VectorFactor second(parameters.zero_points[1], parameters.factors[1]);
  const Factor factor = parameters.factors[2];
  const int32_t zero_point = parameters.zero_points[2];
  const int32x4_t min = vdupq_n_s32(parameters.range.min);
  const int32x4_t max = vdupq_n_s32(parameters.range.max);
  for (size_t fours = (count - eights) / 4; fours > 0; --fours) {
    int32x4_t value =
        vaddq_s32(first.apply<kRepeats>(a, steps[0]), second.apply<kRepeats>(b, steps[1]));
    value = vqrdmulhq_n_s32(value, factor.multiplier);
    value = vaddq_s32(value, vshrq_n_s32(value, 31));
    value = vaddq_n_s32(vrshlq_n_s32(value, factor.shift), zero_point);
    vstrbq_s32(out, vminq_s32(vmaxq_s32(value, min), max));
    a += kRepeats ? 4 * steps[0] : 4;
    b += kRepeats ? 4 * steps[1] : 4;
    out += 4;
  }
  return count & ~size_t{3};
}

#else

/**
 * Adds in 32 bits, where the factor of `a`, input `index`, is a half. That of `b`, shifted to the
 * left by `kBits`, is shifted to the right afterwards; if it is a half, too, by one bit.
 */
template <int32_t kBits>
__attribute__((noinline)) void add_narrow(
    const AddParameters& parameters,
    size_t index,
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t count) {
  const Factor factor = parameters.factors[1 - index];
  const int32_t b_addend = -parameters.zero_points[1 - index] * (1 << kBits);
  const int32_t b_multiplier = factor.multiplier;
  const int32_t b_shift = kBits == kAddShift + 1 ? -factor.shift : 1;
  const int32_t half = 1 << (b_shift - 1);
  const int32_t a_addend = -parameters.zero_points[index] * (1 << kAddShift);
  const FoldedScale scale(parameters.factors[2], parameters.zero_points[2]);
  const auto add_one = [&] {
    int32_t one = *a++, other = *b++;
    // Adjacent loads take Cortex-M4 a cycle less, and addresses change with them.
    __asm__("" : "+r"(one), "+r"(other), "+r"(a), "+r"(b), "+r"(out));
    const int32_t scaled = other * (1 << kBits) + b_addend;
    // Halves are rounded away from zero. If a negative product is zero, nothing changes.
    const int32_t high =
        multiply_add_rounded(scaled, b_multiplier, half + (scaled >> 31)) >> b_shift;
    *out++ = scale.apply(high * 2 + (one * (1 << kAddShift) + a_addend));
  };
  int8_t* const first = out;
  int8_t* const end = out + count;
  for (size_t rest = count % 4; rest > 0; --rest) {
    add_one();
  }
  while (out != end) {
    add_one();
    add_one();
    add_one();
    add_one();
  }
  const Range range = parameters.range;
  if (range.min > -128 || range.max < 127) {
    for (size_t i = 0; i < count; ++i) {
      first[i] = range.clamp(first[i]);
    }
  }
}

/// Adds one number, scaled, to all elements of input `kIn`, whose factor is a half or shifts to
/// the right.
template <size_t kIn>
__attribute__((noinline)) void add_repeated(
    const AddParameters& parameters,
    int32_t scaled,
    const int8_t* in,
    int8_t* out,
    size_t count) {
  const Factor factor = parameters.factors[kIn];
  const int32_t zero_point = parameters.zero_points[kIn];
  const FoldedScale scale(parameters.factors[2], parameters.zero_points[2]);
  const Range range = parameters.range;
  const int32_t doubled = 2 * scaled;
  if (is_half(factor)) {
    const int32_t addend = doubled - zero_point * (1 << kAddShift);
    for (; count > 0; --count) {
      *out++ = range.clamp(scale.apply(*in++ * (1 << kAddShift) + addend));
    }
    return;
  }
  constexpr int32_t kBits = kAddShift + 1;
  const int32_t addend = -zero_point * (1 << kBits);
  const int32_t shift = -factor.shift;
  const int32_t half = 1 << (shift - 1);
  for (; count > 0; --count) {
    const int32_t value = *in++ * (1 << kBits) + addend;
    // The same as in add_narrow().
    const int32_t high =
        multiply_add_rounded(value, factor.multiplier, half + (value >> 31)) >> shift;
    *out++ = range.clamp(scale.apply(2 * high + doubled));
  }
}

/// Does the same as add_repeated(), if it can; returns the number of elements done.
template <size_t kIn>
size_t try_add_repeated(
    const AddParameters& parameters,
    const int8_t* in,
    int8_t other,
    int8_t* out,
    size_t count) {
  constexpr size_t kOther = 1 - kIn;
  if (!is_half(parameters.factors[kIn]) && parameters.factors[kIn].shift == 0) {
    return 0;
  }
  const int32_t scaled =
      scale_input(other, parameters.zero_points[kOther], parameters.factors[kOther]);
  add_repeated<kIn>(parameters, scaled, in, out, count);
  return count;
}

/// Adds all elements if one of the inputs' factors is a half, and returns how many these were.
///
/// @tparam kRepeats Whether steps may be 0; else they are 1.
template <bool kRepeats>
size_t add_side_by_side(
    const AddParameters& parameters,
    const int32_t (&steps)[2],
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t count) {
  if (kRepeats && steps[1] == 0) {
    return steps[0] == 0 ? 0 : try_add_repeated<0>(parameters, a, *b, out, count);
  }
  if (kRepeats && steps[0] == 0) {
    return try_add_repeated<1>(parameters, b, *a, out, count);
  }
  constexpr int32_t kBits = kAddShift + 1;
  const bool halves[] = {is_half(parameters.factors[0]), is_half(parameters.factors[1])};
  if (halves[0] && halves[1]) {
    add_narrow<kBits + 1>(parameters, 0, a, b, out, count);
  } else if (halves[0] && parameters.factors[1].shift < 0) {
    add_narrow<kBits>(parameters, 0, a, b, out, count);
  } else if (halves[1] && parameters.factors[0].shift < 0) {
    add_narrow<kBits>(parameters, 1, b, a, out, count);
  } else {
    return 0;
  }
  return count;
}

#endif

#if defined(__ARM_FEATURE_MVE)

/// Multiplies four elements at a time, and returns whether it did.
bool mul_side_by_side(
    const MulParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  const Factor factor = parameters.factor;
  const auto a_step = static_cast<uint32_t>(rows.steps[0]);
  const auto b_step = static_cast<uint32_t>(rows.steps[1]);
  if (a_step > 1 || b_step > 1 || !is_narrow(factor) || factor.shift == 0 ||
      factor.multiplier < 0) {
    return false;
  }
  const int32_t* const zero_points = parameters.zero_points;
  const int32x4_t min = vdupq_n_s32(-128);
  const int32x4_t max = vdupq_n_s32(127);
  // An input of one element is four times the same one.
  const uint32x4_t places = vidupq_n_u32(0, 1);
  const uint32x4_t a_places = vmulq_n_u32(places, a_step);
  const uint32x4_t b_places = vmulq_n_u32(places, b_step);
  for (size_t row = rows.rows; row > 0; --row) {
    const int8_t* first = a;
    const int8_t* second = b;
    for (auto left = static_cast<int32_t>(rows.count); left > 0; left -= 4) {
      const mve_pred16_t active = vctp32q(static_cast<uint32_t>(left));
      const int32x4_t x =
          vsubq_n_s32(vldrbq_gather_offset_z_s32(first, a_places, active), zero_points[0]);
      const int32x4_t y =
          vsubq_n_s32(vldrbq_gather_offset_z_s32(second, b_places, active), zero_points[1]);
      int32x4_t value = vqrdmulhq_n_s32(vmulq_s32(x, y), factor.multiplier);
      // Halves are rounded away from zero.
      value = vrshlq_n_s32(vaddq_s32(value, vshrq_n_s32(value, 31)), factor.shift);
      value = vminq_s32(vmaxq_s32(vaddq_n_s32(value, zero_points[2]), min), max);
      vstrbq_p_s32(out + rows.count - static_cast<size_t>(left), value, active);
      first += 4 * a_step;
      second += 4 * b_step;
    }
    a += rows.row_steps[0];
    b += rows.row_steps[1];
    out += rows.count;
  }
  return true;
}

#elif defined(__ARM_FEATURE_DSP)

/// Multiplies four elements at a time where their products have 32 bits, and returns whether they
/// do.
bool mul_side_by_side(
    const MulParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  const int32_t* const zero_points = parameters.zero_points;
  const auto is_small = [](int32_t zero_point) {
    constexpr int32_t kLimit = 0x3000; // doubled, with eight bits more, it has 16 bits
    return zero_point > -kLimit && zero_point < kLimit;
  };
  const auto a_step = static_cast<uint32_t>(rows.steps[0]);
  const auto b_step = static_cast<uint32_t>(rows.steps[1]);
  if (a_step > 1 || b_step > 1 || !is_small(zero_points[0]) || !is_small(zero_points[1]) ||
      !FoldedScale::takes(parameters.factor)) {
    return false;
  }
  const FoldedScale scale(parameters.factor, zero_points[2]);
  // An input whose element is repeated is the second one.
  const size_t one = a_step == 0 ? 1 : 0;
  const size_t other = 1 - one;
  const int8_t* x = one == 0 ? a : b;
  const int8_t* y = one == 0 ? b : a;
  const int32_t x_step = rows.steps[one];
  const bool repeats = rows.steps[other] == 0;
  const int32_t x_zero = zero_points[one];
  const int32_t y_zero = zero_points[other];
  const int16x2_t x_offsets = twice(-x_zero);
  const int16x2_t y_offsets = twice(-y_zero);
  const size_t count = rows.count;
  const size_t fours = x_step == 0 ? 0 : count / 4;
  for (size_t row = count == 0 ? 0 : rows.rows; row > 0; --row) {
    const int8_t* first = x;
    const int8_t* second = y;
    x += rows.row_steps[one];
    y += rows.row_steps[other];
    int16x2_t even = twice(2 * (*second - y_zero));
    int16x2_t odd = even;
    for (size_t i = fours; i > 0; --i) {
      const uint32_t word = load_word(first);
      first += 4;
      if (!repeats) {
        const uint32_t factors = load_word(second);
        second += 4;
        even = add_even_bytes(y_offsets, factors);
        odd = add_odd_bytes(y_offsets, factors);
        even = add_pairs(even, even);
        odd = add_pairs(odd, odd);
      }
      const int16x2_t x_even = add_even_bytes(x_offsets, word);
      const int16x2_t x_odd = add_odd_bytes(x_offsets, word);
      out[0] = scale.apply(static_cast<int16_t>(x_even) * static_cast<int16_t>(even));
      out[1] = scale.apply(static_cast<int16_t>(x_odd) * static_cast<int16_t>(odd));
      out[2] = scale.apply((x_even >> 16) * (even >> 16));
      out[3] = scale.apply((x_odd >> 16) * (odd >> 16));
      out += 4;
    }
    for (size_t i = count - 4 * fours; i > 0; --i) {
      *out++ = scale.apply(2 * (*first - x_zero) * (*second - y_zero));
      first += x_step;
      second += repeats ? 0 : 1;
    }
  }
  return true;
}

#endif

template <bool kRepeats>
ET_INLINE void add_rows(
    const AddParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  a += rows.offsets[0];
  b += rows.offsets[1];
  out += rows.out_offset;
  const auto is_side_by_side = [](int32_t step) { return step == 1 || (kRepeats && step == 0); };
  const bool is_short =
      is_narrow(parameters) && is_side_by_side(rows.steps[0]) && is_side_by_side(rows.steps[1]);
  for (size_t row = kRepeats && rows.count == 0 ? 0 : rows.rows; row > 0; --row) {
    const int8_t* x = a;
    const int8_t* y = b;
    size_t i = 0;
    if (is_short) {
      i = add_side_by_side<kRepeats>(parameters, rows.steps, x, y, out, rows.count);
      x = at<kRepeats>(x, i, rows.steps[0]);
      y = at<kRepeats>(y, i, rows.steps[1]);
    }
    for (; i < rows.count; ++i) {
      const int32_t sum = wrapping_add(
          scale_input(*x, parameters.zero_points[0], parameters.factors[0]),
          scale_input(*y, parameters.zero_points[1], parameters.factors[1]));
      out[i] = parameters.range.clamp(
          wrapping_add(requantize(sum, parameters.factors[2]), parameters.zero_points[2]));
      x += rows.steps[0];
      y += rows.steps[1];
    }
    a += rows.row_steps[0];
    b += rows.row_steps[1];
    out += rows.count;
  }
}

} // namespace

bool take_sign(AddParameters& parameters) {
  int32_t& multiplier = parameters.factors[1].multiplier;
  if (multiplier >= 0) {
    return false;
  }
  multiplier = wrapping_mul(-1, multiplier);
  parameters.zero_points[1] = ~parameters.zero_points[1];
  return true;
}

void add(
    const AddParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  add_rows<false>(parameters, rows, a, b, out);
}

void add_broadcast(
    const AddParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  add_rows<true>(parameters, rows, a, b, out);
}

template <AddRows kAdd>
void subtract(
    const AddParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  // The output may replace the first input.
  int8_t complements[64];
  for (size_t row = 0; row < rows.rows; ++row) {
    const auto index = static_cast<int32_t>(row);
    const int8_t* from = b + rows.offsets[1] + index * rows.row_steps[1];
    Rows part = {
        {rows.offsets[0] + index * rows.row_steps[0], 0},
        {rows.steps[0], 1},
        {0, 0},
        rows.out_offset + row * rows.count,
        0,
        1};
    for (size_t left = rows.count; left > 0; left -= part.count) {
      part.count = left < sizeof(complements) ? left : sizeof(complements);
      size_t i = 0;
      for (; rows.steps[1] == 1 && i + 4 <= part.count; i += 4) {
        const uint32_t word = ~load_word(from);
        std::memcpy(complements + i, &word, sizeof(word));
        from += sizeof(word);
      }
      for (; i < part.count; ++i) {
        complements[i] = static_cast<int8_t>(~*from);
        from += rows.steps[1];
      }
      kAdd(parameters, part, a, complements, out);
      part.offsets[0] += static_cast<int32_t>(part.count) * rows.steps[0];
      part.out_offset += part.count;
    }
  }
}

template void
subtract<add>(const AddParameters&, const Rows&, const int8_t*, const int8_t*, int8_t*);
template void
subtract<add_broadcast>(const AddParameters&, const Rows&, const int8_t*, const int8_t*, int8_t*);

void mul(
    const MulParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  a += rows.offsets[0];
  b += rows.offsets[1];
  out += rows.out_offset;
  const int32_t a_step = rows.steps[0];
  const int32_t b_step = rows.steps[1];
#ifdef __ARM_FEATURE_DSP
  if (mul_side_by_side(parameters, rows, a, b, out)) {
    return;
  }
#endif
  // Storing an output changes nothing of a copy.
  const MulParameters p = parameters;
  for (size_t row = rows.rows; row > 0; --row) {
    const int8_t* x = a;
    const int8_t* y = b;
    for (size_t i = rows.count; i > 0; --i) {
      const int32_t product = (*x - p.zero_points[0]) * (*y - p.zero_points[1]);
      *out++ =
          Range{-128, 127}.clamp(wrapping_add(requantize(product, p.factor), p.zero_points[2]));
      x += a_step;
      y += b_step;
    }
    a += rows.row_steps[0];
    b += rows.row_steps[1];
  }
}

void divide(
    const Quantization& quantization,
    const int32_t (&zero_points)[3],
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out) {
  each_pair(rows, a, b, out, [&](int32_t x, int32_t y) {
    const int32_t dividend = x - zero_points[0];
    const int32_t divisor = y - zero_points[1];
    // GCC writes a conversion that depends on a condition as no assembler for a Cortex-M55 reads
    // it.
    const int32_t quotient =
        quantization.apply(static_cast<float>(dividend) / static_cast<float>(divisor));
    return static_cast<int8_t>(Range{-128, 127}.clamp(divisor == 0 ? zero_points[2] : quotient));
  });
}

template <bool kMax>
void choose(const Rows& rows, const int8_t* a, const int8_t* b, int8_t* out) {
  a += rows.offsets[0];
  b += rows.offsets[1];
  out += rows.out_offset;
  const int32_t a_step = rows.steps[0];
  const int32_t b_step = rows.steps[1];
  for (size_t row = rows.count == 0 ? 0 : rows.rows; row > 0; --row) {
    const int8_t* x = a;
    const int8_t* y = b;
    size_t left = rows.count;
#ifdef __ARM_FEATURE_DSP
    if (static_cast<uint32_t>(a_step) <= 1 && static_cast<uint32_t>(b_step) <= 1) {
      // An input of one element is four times the same one.
      uint32_t first = 0x01010101u * static_cast<uint8_t>(*x);
      uint32_t second = 0x01010101u * static_cast<uint8_t>(*y);
      for (; left >= 4; left -= 4) {
        if (a_step == 1) {
          first = load_word(x);
          x += 4;
        }
        if (b_step == 1) {
          second = load_word(y);
          y += 4;
        }
        const uint32_t chosen = choose_bytes<kMax>(first, second);
        std::memcpy(out, &chosen, sizeof(chosen));
        out += 4;
      }
    }
#endif
    for (; left > 0; --left) {
      *out++ = (*x < *y) == kMax ? *y : *x;
      x += a_step;
      y += b_step;
    }
    a += rows.row_steps[0];
    b += rows.row_steps[1];
  }
}

template void choose<false>(const Rows&, const int8_t*, const int8_t*, int8_t*);
template void choose<true>(const Rows&, const int8_t*, const int8_t*, int8_t*);

void look_up(const int8_t* table, const int8_t* in, int32_t step, int8_t* out, size_t count) {
  const int8_t* const middle = table + 128;
  for (; count >= 4; count -= 4) {
    // All are read first: storing one changes nothing of the others' indices then.
    const int8_t first = middle[in[0]];
    const int8_t second = middle[in[step]];
    const int8_t third = middle[in[2 * step]];
    const int8_t fourth = middle[in[3 * step]];
    in += 4 * step;
    out[0] = first;
    out[1] = second;
    out[2] = third;
    out[3] = fourth;
    out += 4;
  }
  for (; count > 0; --count) {
    *out++ = middle[*in];
    in += step;
  }
}

} // namespace torch::executor::native::cortex_m
