#pragma once

#include <cstddef>

namespace torch {
namespace executor {
namespace native {

/**
 * Softmax over the middle dim of a contiguous [..., size, inner] array of `count` elements:
 * e^(x - max) / sum(e^(x - max)).
 */
void softmax(const float* in, float* out, size_t count, size_t size, size_t inner);

} // namespace native
} // namespace executor
} // namespace torch
