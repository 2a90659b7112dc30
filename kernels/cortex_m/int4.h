#pragma once

#include "kernels/cortex_m/packed.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/**
 * A packed layer with int4 weights: `rows` vectors, or pixels of images that lie channels last, of
 * parts.inner elements to as many of layer->channels. The output may lie over the input: a row is
 * written while its input is read, and the rows after it are read later.
 */
void packed_int4(const PackedParts& parts, const int8_t* in, int32_t rows, int8_t* out);

/// As above, of a packed constant that the build has checked.
void packed_int4(const int8_t* packed, const int8_t* in, int32_t rows, int8_t* out);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
