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

} // namespace

void add(
    const AddParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count) {
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
