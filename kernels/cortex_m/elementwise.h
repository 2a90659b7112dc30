#pragma once

#include "kernels/cortex_m/quantize.h"
#include "kernels/cortex_m/requantize.h"
#include "kernels/cortex_m/runs.h"

namespace torch::executor::native::cortex_m {

/// The parameters of quantized_add: those of both inputs and the output.
struct AddParameters {
  int32_t zero_points[3];
  Factor factors[3];
  Range range;
};

/// Zero points of factors are in [-kMulOffsets, kMulOffsets): a lowered hardswish adds a number
/// outside of int8 to its input. The product of two such differences is below 2**31.
constexpr int32_t kMulOffsets = 0x7fff;

/// The parameters of quantized_mul.
struct MulParameters {
  int32_t zero_points[3];
  Factor factor;
};

/// Makes a difference a sum: takes the sign off the factor of the second input, whose complement
/// replaces it, -1 - value, and whose zero point becomes -1 - zero point. Returns whether the
/// factor was negative.
bool take_sign(AddParameters& parameters);

/// Sums; add_broadcast() is quick where a row has one element of an input, too.
using AddRows = void(
    const AddParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out);
AddRows add, add_broadcast;

/// Sums by add() or add_broadcast(), with the complements of the second input.
template <AddRows kAdd>
void subtract(
    const AddParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out);

/// Products.
void mul(
    const MulParameters& parameters,
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out);

/// Quotients in floating point, less the zero points of both inputs; those by zero are 0.
void divide(
    const Quantization& quantization,
    const int32_t (&zero_points)[3],
    const Rows& rows,
    const int8_t* a,
    const int8_t* b,
    int8_t* out);

/// The greater of each two elements, or the smaller.
template <bool kMax>
void choose(const Rows& rows, const int8_t* a, const int8_t* b, int8_t* out);

/// Sets out[i] = table[in[i * step] + 128].
void look_up(const int8_t* table, const int8_t* in, int32_t step, int8_t* out, size_t count);

} // namespace torch::executor::native::cortex_m
