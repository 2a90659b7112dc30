#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/util/dtypes.h"

/**
 * The operations of reductions on elements of type T: start(), accumulate(T result, T element) and
 * finish(T result, size_t count), in memory order.
 */
namespace torch::executor::native {

template <class T>
struct Sum {
  T start() const {
    return T(0);
  }
  T accumulate(T sum, T element) const {
    return wrapping_sum(sum, element);
  }
  T finish(T sum, size_t) const {
    return sum;
  }
};

template <class T>
struct Mean : Sum<T> {
  T finish(T sum, size_t count) const {
    return sum / static_cast<T>(count);
  }
};

template <class T>
struct Product {
  T start() const {
    return T(1);
  }
  T accumulate(T product, T element) const {
    return static_cast<T>(
        static_cast<ArithmeticType<T>>(product) * static_cast<ArithmeticType<T>>(element));
  }
  T finish(T product, size_t) const {
    return product;
  }
};

/// Returns whether an element comes before another in the search for the largest, or the smallest:
/// NaN before all.
template <bool kLargest, class T>
bool precedes(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return kLargest ? !(a <= b) && b == b : !(a >= b) && b == b;
  } else {
    return kLargest ? a > b : a < b;
  }
}

template <bool kLargest, class T>
struct Extreme {
  T start() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>) {
      return kLargest ? -Limits::infinity() : Limits::infinity();
    } else {
      return kLargest ? Limits::min() : Limits::max();
    }
  }
  T accumulate(T extreme, T element) const {
    return precedes<kLargest>(element, extreme) ? element : extreme;
  }
  T finish(T extreme, size_t) const {
    return extreme;
  }
};

/**
 * Reduces the middle one of three dims of contiguous elements.
 *
 * @param[in] x [outer, size, inner]
 * @param[out] out [outer, inner]
 */
template <class Operation, class T>
inline void reduce_dim(
    const Operation& operation,
    const T* x,
    T* out,
    size_t outer,
    size_t size,
    size_t inner) {
  for (; outer > 0; --outer) {
    for (size_t i = 0; i < inner; ++i) {
      T result = operation.start();
      const T* element = x + i;
      for (size_t left = size; left > 0; --left) {
        result = operation.accumulate(result, *element);
        element += inner;
      }
      *out++ = operation.finish(result, size);
    }
    x += size * inner;
  }
}

} // namespace torch::executor::native
