#pragma once

#include "kernels/cortex_m/packed.h"

namespace torch::executor::native::cortex_m {

/**
 * Computes a packed layer with int4 weights: maps `rows` vectors, or pixels of channels-last
 * images, with parts.inner elements to layer->channels outputs each. The output may overlap the
 * input: a row is written while its input is read, and the following rows are read later.
 */
void packed_int4(const PackedParts& parts, const int8_t* in, int32_t rows, int8_t* out);

/// Does the same for a packed constant that the build has checked.
void packed_int4(const int8_t* packed, const int8_t* in, int32_t rows, int8_t* out);

} // namespace torch::executor::native::cortex_m
