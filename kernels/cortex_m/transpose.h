#pragma once

#include <cstdint>

namespace torch::executor::native::cortex_m {

/// Transposes matrices of a batch, whose elements are `unit` bytes: [batch, rows, columns, unit]
/// becomes [batch, columns, rows, unit]. `out` doesn't overlap `in`.
void transpose(
    const int8_t* in,
    int32_t batch,
    int32_t rows,
    int32_t columns,
    int32_t unit,
    int8_t* out);

} // namespace torch::executor::native::cortex_m
