#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/op_elementwise.h"

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

/// How an input of an addition is scaled in 32 bits: for shifts to the right, or none.
struct InputScale {
  int32_t addend;
  int32_t multiplier;
  int32_t shift;
  /// For halves away from zero; all zeros without a shift.
  int32_t sign_mask;
  int32_t half;

  InputScale(int32_t zero_point, Factor factor)
      : addend(-zero_point * (1 << (kAddShift + 1))),
        multiplier(factor.multiplier),
        shift(-factor.shift),
        sign_mask(shift > 0 ? -1 : 0),
        half(shift > 0 ? 1 << (shift - 1) : 0) {}

  ET_INLINE int32_t apply(int8_t value) const {
    const int32_t high = multiply_rounded(value * (1 << (kAddShift + 1)) + addend, multiplier);
    return (high + ((high >> 31) & sign_mask) + half) >> shift;
  }
};

bool is_narrow(Factor factor) {
  return factor.shift <= 0 && factor.shift >= -30;
}

/// As add(), if all of its factors are narrow and the last one is less than a half: as its inputs
/// have 28 bits, sums doubled have less than 31.
void add_narrow(
    const AddParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count) {
  const InputScale a_scale(parameters.zero_points[0], parameters.factors[0]);
  const InputScale b_scale(parameters.zero_points[1], parameters.factors[1]);
  const int32_t multiplier = parameters.factors[2].multiplier;
  const int32_t shift = -1 - parameters.factors[2].shift;
  const int32_t addend = 1 + 2 * parameters.zero_points[2];
  const Range range = parameters.range;
  for (int8_t* const end = out + count; out != end; ++out) {
    const int32_t sum = a_scale.apply(*a) + b_scale.apply(*b);
    int32_t high = multiply_rounded(2 * sum, multiplier);
    high += high >> 31;
    *out = range.clamp(saturated_half((high >> shift) + addend));
    a += a_step;
    b += b_step;
  }
}

} // namespace

void add(
    const AddParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count) {
  const Factor* const factors = parameters.factors;
  if (is_narrow(factors[0]) && is_narrow(factors[1]) && is_narrow(factors[2]) &&
      factors[2].shift < 0) {
    add_narrow(parameters, a, a_step, b, b_step, out, count);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
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
  for (size_t i = 0; i < count; ++i) {
    const int32_t product = (*a - parameters.zero_points[0]) * (*b - parameters.zero_points[1]);
    out[i] = Range{-128, 127}.clamp(
        wrapping_add(requantize(product, parameters.factor), parameters.zero_points[2]));
    a += a_step;
    b += b_step;
  }
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
