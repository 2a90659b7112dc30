#include "kernels/cortex_m/elementwise.h"

#include "kernels/cortex_m/dsp.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// SHIFT_INT8 of the dialect's Python.
constexpr int32_t kAddShift = 20;

int32_t scale_input(int8_t value, int32_t zero_point, Factor factor) {
  return requantize((value - zero_point) * (1 << kAddShift), factor);
}

/// Whether a factor shifts to the right, or not at all.
bool is_narrow(Factor factor) {
  return factor.shift <= 0 && factor.shift >= -30;
}

/// Whether add() needs 32 bits only: as its inputs have 28 bits, sums doubled have less than 31.
bool is_narrow(const AddParameters& parameters) {
  const Factor* const factors = parameters.factors;
  return is_narrow(factors[0]) && is_narrow(factors[1]) && is_narrow(factors[2]) &&
      factors[2].shift < 0;
}

#ifdef __ARM_FEATURE_MVE

/// An input's contribution to sums that need 32 bits only.
ET_INLINE int32x4_t scale_four(const int8_t* in, int32_t zero_point, Factor factor) {
  int32x4_t value = vshlq_n_s32(vsubq_n_s32(vldrbq_s32(in), zero_point), kAddShift);
  value = vqrdmulhq_n_s32(value, factor.multiplier);
  if (factor.shift < 0) {
    // Halves are rounded away from zero.
    value = vaddq_s32(value, vshrq_n_s32(value, 31));
    value = vrshlq_n_s32(value, factor.shift);
  }
  return value;
}

/// Adds four elements at a time, and returns how many there were.
size_t add_side_by_side(
    const AddParameters& parameters,
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t count) {
  const Factor* const factors = parameters.factors;
  const int32_t* const zero_points = parameters.zero_points;
  const int32x4_t min = vdupq_n_s32(parameters.range.min);
  const int32x4_t max = vdupq_n_s32(parameters.range.max);
  for (size_t i = 0; i + 4 <= count; i += 4) {
    int32x4_t value = vaddq_s32(
        scale_four(a + i, zero_points[0], factors[0]),
        scale_four(b + i, zero_points[1], factors[1]));
    value = vqrdmulhq_n_s32(value, factors[2].multiplier);
    value = vaddq_s32(value, vshrq_n_s32(value, 31));
    value = vaddq_n_s32(vrshlq_n_s32(value, factors[2].shift), zero_points[2]);
    vstrbq_s32(out + i, vminq_s32(vmaxq_s32(value, min), max));
  }
  return count & ~size_t{3};
}

#else

/// Whether a factor is a half, as that of the input with the larger scale is.
bool is_half(Factor factor) {
  return factor.multiplier == (1 << 30) && factor.shift == 0;
}

/**
 * Adds in 32 bits, where the factor of `a`, input `kA`, is a half. That of `b`, shifted to the left
 * by `kBits`, is shifted to the right afterwards; if it is a half, too, by one bit.
 */
template <size_t kA, int32_t kBits>
void add_narrow(
    const AddParameters& parameters,
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t count) {
  const Factor factor = parameters.factors[1 - kA];
  const int32_t b_addend = -parameters.zero_points[1 - kA] * (1 << kBits);
  const int32_t b_multiplier = factor.multiplier;
  const int32_t b_shift = kBits == kAddShift + 1 ? -factor.shift : 1;
  const int32_t half = 1 << (b_shift - 1);
  const int32_t a_addend = -parameters.zero_points[kA] * (1 << kAddShift);
  const int32_t multiplier = parameters.factors[2].multiplier;
  const int32_t shift = -1 - parameters.factors[2].shift;
  const int32_t addend = 1 + 2 * parameters.zero_points[2];
  int8_t* const first = out;
  for (int8_t* const end = out + count; out != end; ++out) {
    int32_t value = multiply_rounded(*b++ * (1 << kBits) + b_addend, b_multiplier);
    // Halves are rounded away from zero.
    value += value >> 31;
    value = (value + half) >> b_shift;
    value += *a++ * (1 << (kAddShift - 1));
    value = multiply_rounded(value * 2 + a_addend, multiplier);
    value += value >> 31;
    *out = static_cast<int8_t>(saturated_half((value >> shift) + addend));
  }
  const Range range = parameters.range;
  if (range.min > -128 || range.max < 127) {
    for (size_t i = 0; i < count; ++i) {
      first[i] = range.clamp(first[i]);
    }
  }
}

/// Adds all elements if one of the inputs' factors is a half, and returns how many these were.
size_t add_side_by_side(
    const AddParameters& parameters,
    const int8_t* a,
    const int8_t* b,
    int8_t* out,
    size_t count) {
  constexpr int32_t kBits = kAddShift + 1;
  const bool halves[] = {is_half(parameters.factors[0]), is_half(parameters.factors[1])};
  if (halves[0] && halves[1]) {
    add_narrow<0, kBits + 1>(parameters, a, b, out, count);
  } else if (halves[0] && parameters.factors[1].shift < 0) {
    add_narrow<0, kBits>(parameters, a, b, out, count);
  } else if (halves[1] && parameters.factors[0].shift < 0) {
    add_narrow<1, kBits>(parameters, b, a, out, count);
  } else {
    return 0;
  }
  return count;
}

#endif

} // namespace

void add(
    const AddParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count) {
  size_t i = 0;
  if (a_step == 1 && b_step == 1 && is_narrow(parameters)) {
    i = add_side_by_side(parameters, a, b, out, count);
    a += i;
    b += i;
  }
  for (; i < count; ++i) {
    const int32_t sum = wrapping_add(
        scale_input(*a, parameters.zero_points[0], parameters.factors[0]),
        scale_input(*b, parameters.zero_points[1], parameters.factors[1]));
    out[i] = parameters.range.clamp(
        wrapping_add(requantize(sum, parameters.factors[2]), parameters.zero_points[2]));
    a += a_step;
    b += b_step;
  }
}

void mul(
    const MulParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count) {
  // Storing an output changes nothing of a copy.
  const MulParameters p = parameters;
  for (size_t i = 0; i < count; ++i) {
    const int32_t product = (*a - p.zero_points[0]) * (*b - p.zero_points[1]);
    out[i] = Range{-128, 127}.clamp(wrapping_add(requantize(product, p.factor), p.zero_points[2]));
    a += a_step;
    b += b_step;
  }
}

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

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
