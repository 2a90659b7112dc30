#pragma once

#include <cstddef>
#include <cstdint>

namespace torch::executor::native::cortex_m {

/// Computes softmax of `count` values that are `step` apart, from int8 with a scale to int8 with
/// scale 1 / 256 and zero point -128. It uses single precision, like the dialect's Python.
void softmax(
    const int8_t* in,
    int8_t* out,
    size_t count,
    size_t step,
    int32_t zero_point,
    float scale);

/**
 * Computes the same with integers.
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

} // namespace torch::executor::native::cortex_m
