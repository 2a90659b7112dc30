#pragma once

#include <cstdint>
#include <type_traits>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include "kernels/selection.h"
#include "kernels/util/arithmetic.h"
#include "kernels/util/checks.h"

namespace torch::executor::native {

/// True if elements of a type are only stored, and computed with in float.
template <class T>
constexpr bool is_reduced =
    std::is_same_v<T, executorch::aten::Half> || std::is_same_v<T, executorch::aten::BFloat16>;

/// The type in which elements of a type are computed and accumulated, as PyTorch does it: float for
/// the 16-bit floats, otherwise the type itself.
template <class T>
using ComputeType = std::conditional_t<is_reduced<T>, float, T>;

/// The dtype of an element type.
template <class T>
constexpr ScalarType dtype_of() {
  return executorch::runtime::CppTypeToScalarType<T>::value;
}

/// Carries an element type into a generic lambda.
template <class T>
struct TypeTag {
  using type = T;
};

/// A set of dtypes that an operator takes.
template <ScalarType... kDtypes>
struct DtypeList {
  /**
   * Calls `body(TypeTag<T>())` for the element type of `dtype` if it is in this
   * list and in Selection S.
   *
   * @returns false if it is not.
   */
  template <class S, class Body>
  static bool visit(ScalarType dtype, Body&& body) {
    return (visit_one<S, kDtypes>(dtype, body) || ...);
  }

 private:
  template <class S, ScalarType kDtype, class Body>
  static bool visit_one(ScalarType dtype, Body& body) {
    if constexpr (S::has(kDtype)) {
      if (dtype == kDtype) {
        body(TypeTag<typename executorch::runtime::ScalarTypeToCppType<kDtype>::type>());
        return true;
      }
    }
    return false;
  }
};

/**
 * The dtypes of computations. Half and BFloat16 are not among them: kernels/util/elementwise.h
 * converts them to Float and back. Other kernels use the Stored lists and compute in
 * ComputeType<T>.
 */
using FloatTypes = DtypeList<ScalarType::Float, ScalarType::Double>;
using IntegralTypes = DtypeList<
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long>;
using BitTypes = DtypeList<
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Bool>;
using RealTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Double>;
using AllTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Double,
    ScalarType::Bool>;

/// The same with the 16-bit floats: dtypes that elements are stored in.
using StoredFloatTypes =
    DtypeList<ScalarType::Float, ScalarType::Half, ScalarType::BFloat16, ScalarType::Double>;
using StoredRealTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Double>;
using StoredTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Double,
    ScalarType::Bool>;

/// Does the same as visit(), but fails the context (NotSupported) for a dtype left out.
template <class Types, class S, class Body>
void dispatch(KernelRuntimeContext& ctx, ScalarType dtype, Body&& body) {
  if (!Types::template visit<S>(dtype, body)) {
    unsupported_dtype(ctx, dtype);
  }
}

/**
 * Converts one element as PyTorch does: to bool by comparing with zero, to
 * integers by truncation and wrapping, to floats by rounding to nearest.
 *
 * What an integer is of a NaN, or of a number beyond its range, is the processor's: as in PyTorch,
 * nothing relies on it, and saying more would cost instructions.
 */
template <class To, class From>
__attribute__((no_sanitize("float-cast-overflow"))) inline To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_reduced<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (is_reduced<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (
      std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < sizeof(int32_t)) {
    return static_cast<To>(static_cast<int32_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// a + b; integers wrap, and 16-bit floats are computed with in float.
template <class T>
inline T wrapping_sum(T a, T b) {
  using Number = ArithmeticType<ComputeType<T>>;
  return static_cast<T>(static_cast<Number>(a) + static_cast<Number>(b));
}

/// True if any dtype of a Selection is only stored.
template <class S>
constexpr bool has_reduced = S::has(ScalarType::Half) || S::has(ScalarType::BFloat16);

/// Returns whether a dtype's elements are only stored.
constexpr bool is_reduced_dtype(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::BFloat16;
}

/// The dtype of ComputeType for elements of a dtype in Selection S.
template <class S>
constexpr ScalarType computed_in(ScalarType dtype) {
  if constexpr (has_reduced<S>) {
    return is_reduced_dtype(dtype) ? ScalarType::Float : dtype;
  } else {
    return dtype;
  }
}

/**
 * The dtype that PyTorch computes in when two operands meet: the higher
 * category (bool, integral, floating) wins, and within a category a tensor with
 * dims wins over a zero-dim one.
 * (PyTorch documentation, "Tensor Attributes", type promotion.)
 *
 * Complex, quantized and bits types give ScalarType::Undefined.
 */
ScalarType promote(ScalarType a, bool a_zero_dim, ScalarType b, bool b_zero_dim);

/// Returns whether a result of dtype `from` may be written to an out of dtype `to`: not to a lower
/// category.
bool can_cast(ScalarType from, ScalarType to);

/// Returns whether the dtype is an integer other than bool.
bool is_integral(ScalarType dtype);

/// Returns whether the dtype is floating-point.
bool is_floating(ScalarType dtype);

} // namespace torch::executor::native
