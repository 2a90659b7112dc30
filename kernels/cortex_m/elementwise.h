#pragma once

#include "kernels/cortex_m/requantize.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// What quantized_add computes with: of both inputs and the output.
struct AddParameters {
  int32_t zero_points[3];
  Factor factors[3];
  Range range;
};

/// Zero points of factors are in [-kMulOffsets, kMulOffsets): a lowered hardswish has one outside
/// of int8, for what it adds to its input. The product of two such differences is below 2**31.
constexpr int32_t kMulOffsets = 0x7fff;

/// What quantized_mul computes with.
struct MulParameters {
  int32_t zero_points[3];
  Factor factor;
};

/// A run of sums; neighbours in the inputs lie `step` apart.
void add(
    const AddParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count);

/// A run of products.
void mul(
    const MulParameters& parameters,
    const int8_t* a,
    int32_t a_step,
    const int8_t* b,
    int32_t b_step,
    int8_t* out,
    size_t count);

/// out[i] = table[in[i * step] + 128].
void look_up(const int8_t* table, const int8_t* in, int32_t step, int8_t* out, size_t count);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
