#pragma once

#include <cstddef>
#include <cstdint>

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Softmax of `count` values that lie `step` apart, of int8 with a scale to int8 of scale 1 / 256
/// and zero point -128. In single precision, as the dialect's Python.
void softmax(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    int32_t zero_point,
    float scale);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
