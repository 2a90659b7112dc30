#pragma once

#include <cstddef>

#include "kernels/math/double.h"
#include "kernels/math/exp.h"
#include "kernels/math/log.h"
#include "kernels/util/dtypes.h"

namespace torch::executor::native {

/**
 * Softmax over the middle dim of a contiguous [..., size, inner] array of `count` elements:
 * e^(x - max) / sum(e^(x - max)).
 */
void softmax(const float* in, float* out, size_t count, size_t size, size_t inner);

/// Computes softmax of `size` elements of any type, or its logarithm: (x - max) - log(sum(e^(x -
/// max))). The steps are distances between elements.
template <bool kIsLog, class T>
void softmax_row(const T* x, int32_t x_step, T* y, int32_t y_step, size_t size) {
  using C = ComputeType<T>;
  const T* const end = x + static_cast<int32_t>(size) * x_step;
  C max = static_cast<C>(*x);
  for (const T* element = x; element != end; element += x_step) {
    const C value = static_cast<C>(*element);
    max = value > max || value != value ? value : max;
  }
  C sum = C(0);
  for (const T* element = x; element != end; element += x_step) {
    sum += math::exp(static_cast<C>(*element) - max);
  }
  const C scale = kIsLog ? math::log(sum) : C(1) / sum;
  for (; x != end; x += x_step, y += y_step) {
    const C distance = static_cast<C>(*x) - max;
    *y = convert<T>(kIsLog ? distance - scale : math::exp(distance) * scale);
  }
}

/// softmax() for elements of any type, or its logarithm.
template <bool kIsLog, class T>
void softmax_of(const T* in, T* out, size_t count, size_t size, size_t inner) {
  const int32_t step = static_cast<int32_t>(inner);
  const size_t block = size * inner;
  for (const T* const end = in + count; in < end; in += block, out += block) {
    for (size_t column = 0; column < inner; ++column) {
      softmax_row<kIsLog>(in + column, step, out + column, step, size);
    }
  }
}

} // namespace torch::executor::native
