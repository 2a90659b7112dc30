#pragma once

#include <cstddef>

#include "kernels/math/double.h"
#include "kernels/math/exp.h"
#include "kernels/math/log.h"
#include "kernels/util/dtypes.h"

namespace torch {
namespace executor {
namespace native {

/**
 * Softmax over the middle dim of a contiguous [..., size, inner] array of `count` elements:
 * e^(x - max) / sum(e^(x - max)).
 */
void softmax(const float* in, float* out, size_t count, size_t size, size_t inner);

/// The same for elements of any type, and its logarithm: (x - max) - log(sum(e^(x - max))).
template <bool kIsLog, class T>
void softmax_of(const T* in, T* out, size_t count, size_t size, size_t inner) {
  using C = ComputeType<T>;
  const size_t block = size * inner;
  for (const T* const end = in + count; in < end; in += block, out += block) {
    for (size_t column = 0; column < inner; ++column) {
      const T* const x = in + column;
      T* const y = out + column;
      C max = static_cast<C>(x[0]);
      for (size_t i = 1; i < size; ++i) {
        const C value = static_cast<C>(x[i * inner]);
        max = value > max || value != value ? value : max;
      }
      C sum = C(0);
      for (size_t i = 0; i < size; ++i) {
        sum += math::exp(static_cast<C>(x[i * inner]) - max);
      }
      const C scale = kIsLog ? math::log(sum) : C(1) / sum;
      for (size_t i = 0; i < size; ++i) {
        const C distance = static_cast<C>(x[i * inner]) - max;
        y[i * inner] = convert<T>(kIsLog ? distance - scale : math::exp(distance) * scale);
      }
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
