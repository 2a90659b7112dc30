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

/**
 * The same in integers.
 *
 * @param[in] exponentials 256 numbers, in 1 / 32767: e^-255, ... e^-1, e^0, of a value so many
 * steps of its scale below the largest one.
 * @param[out] out May lie over `in` if it does not begin behind it.
 */
void softmax_by_table(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    const int16_t* exponentials);

/**
 * The same of neighbours some of which are left out: they become zeros, -128.
 *
 * @param[in] mask `count` values, 0 for what is left out and -1 for all else; not all are 0.
 */
void masked_softmax_by_table(
    const int8_t* in,
    int8_t* out,
    size_t count,
    const int16_t* exponentials,
    const int8_t* mask);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
