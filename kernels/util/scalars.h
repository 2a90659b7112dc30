#pragma once

#include <cstdint>
#include <type_traits>

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "kernels/soft_double.h"
#include "kernels/util/dtypes.h"

namespace torch::executor::native {

using executorch::aten::Scalar;

/// A Scalar of any kind as a float: one conversion, no double arithmetic.
float scalar_to_float(const Scalar& scalar);

/// A Scalar of any kind as an integer, truncated toward zero.
int64_t scalar_to_int(const Scalar& scalar);

/// A Scalar as an element of type T.
template <class T>
T scalar_to(const Scalar& scalar) {
  if constexpr (std::is_same_v<T, double>) {
    return scalar.isFloatingPoint() ? scalar.to<double>() : double_of(scalar_to_int(scalar));
  } else if constexpr (std::is_floating_point_v<T>) {
    return scalar_to_float(scalar);
  } else if constexpr (std::is_same_v<T, bool>) {
    return scalar.isFloatingPoint() ? scalar_to_float(scalar) != 0.0f : scalar_to_int(scalar) != 0;
  } else {
    return static_cast<T>(scalar_to_int(scalar));
  }
}

/// Returns whether a Scalar is in the range of Byte, Char, Short, Int or Long, where negative
/// integers down to that of the largest one's magnitude wrap in Byte.
bool fits_integer(const Scalar& scalar, ScalarType dtype);

/// Returns whether a Scalar is no finite number beyond `largest`, of either sign.
bool fits_float(const Scalar& scalar, float largest);

/// The largest finite number of Half, BFloat16 or Float.
float largest_float(ScalarType dtype);

/**
 * Whether an operator that stores a Scalar in a dtype of Selection S, or compares
 * with it, can: fails the context (InvalidArgument) and returns false if it is
 * beyond the dtype's range, which PyTorch refuses.
 */
template <class S>
bool check_fits(KernelRuntimeContext& ctx, const Scalar& scalar, ScalarType dtype) {
  bool fits = true;
  if constexpr (
      S::has(ScalarType::Byte) || S::has(ScalarType::Char) || S::has(ScalarType::Short) ||
      S::has(ScalarType::Int) || S::has(ScalarType::Long)) {
    fits = !is_integral(dtype) || fits_integer(scalar, dtype);
  }
  if constexpr (has_reduced<S>) {
    fits = fits && (!is_reduced_dtype(dtype) || fits_float(scalar, largest_float(dtype)));
  }
  if constexpr (S::has(ScalarType::Float)) {
    fits = fits &&
        (dtype != ScalarType::Float || fits_float(scalar, largest_float(ScalarType::Float)));
  }
  CHECK_ARGUMENT(ctx, fits, "A number is out of the range of dtype %d", static_cast<int>(dtype));
  return true;
}

/// A value rounded to a 16-bit float, if the dtype is one.
float rounded_to(ScalarType dtype, float value);

/// Returns the dtype that a Scalar has as an operand: Long, Bool, or the default dtype Float.
/// It takes part in type promotion as a zero-dim tensor does.
ScalarType scalar_dtype(const Scalar& scalar);

} // namespace torch::executor::native
