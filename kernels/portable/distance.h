#pragma once

#include <limits>

#include "kernels/math/double.h"
#include "kernels/math/pow.h"
#include "kernels/math/round.h"

namespace torch::executor::native {

/// The p-norm of a - b for p >= 0: the number of differences for 0, their maximum for infinity.
template <class T>
T distance(const T* a, const T* b, size_t count, T p) {
  const bool is_maximum = p > std::numeric_limits<T>::max();
  T result = T(0);
  for (; count > 0; --count) {
    const T difference = math::magnitude(*a++ - *b++);
    if (is_maximum) {
      result = difference > result || difference != difference ? difference : result;
    } else if (p == T(0)) {
      result += difference != T(0) ? T(1) : T(0);
    } else if (p == T(1)) {
      result += difference;
    } else if (p == T(2)) {
      result += difference * difference;
    } else {
      result += math::pow(difference, p);
    }
  }
  if (is_maximum || p == T(0) || p == T(1)) {
    return result;
  }
  return p == T(2) ? math::sqrt(result) : math::pow(result, T(1) / p);
}

} // namespace torch::executor::native
