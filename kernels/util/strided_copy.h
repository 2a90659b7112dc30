#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/loop_nest.h"

namespace torch {
namespace executor {
namespace native {

/**
 * Copies elements of any type from where strides point into a dense array. Here and below the two
 * may overlap, as a corrupted program may have it; what is copied then is arbitrary.
 *
 * @param[in] sizes The output's shape, `dims` sizes.
 * @param[in] strides Distance in the source per dim, in elements; may be 0 or
 *     negative.
 * @param[in] element_size Bytes per element: 1, 2, 4 or 8.
 */
void strided_copy(
    const void* from,
    void* to,
    const SizesType* sizes,
    const int32_t* strides,
    size_t dims,
    size_t element_size);

/// Copies elements of any type along a walk of one input.
void copy_nest(LoopNest& nest, const void* from, void* to, size_t element_size);

/**
 * Copies `count` blocks of `bytes` bytes, whose starts lie `from_step` and
 * `to_step` bytes apart.
 */
void block_copy(
    const void* from,
    size_t from_step,
    void* to,
    size_t to_step,
    size_t bytes,
    size_t count);

} // namespace native
} // namespace executor
} // namespace torch
