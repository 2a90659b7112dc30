#pragma once

#include <cstdint>
#include <type_traits>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include "kernels/selection.h"
#include "kernels/util/arithmetic.h"
#include "kernels/util/checks.h"

namespace torch {
namespace executor {
namespace native {

/// The element type of a dtype.
template <ScalarType kDtype>
struct Element;
template <>
struct Element<ScalarType::Byte> {
  using type = uint8_t;
};
template <>
struct Element<ScalarType::Char> {
  using type = int8_t;
};
template <>
struct Element<ScalarType::Short> {
  using type = int16_t;
};
template <>
struct Element<ScalarType::Int> {
  using type = int32_t;
};
template <>
struct Element<ScalarType::Long> {
  using type = int64_t;
};
template <>
struct Element<ScalarType::Float> {
  using type = float;
};
template <>
struct Element<ScalarType::Bool> {
  using type = bool;
};

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
        body(TypeTag<typename Element<kDtype>::type>());
        return true;
      }
    }
    return false;
  }
};

using FloatTypes = DtypeList<ScalarType::Float>;
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
    ScalarType::Long>;
using AllTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Bool>;

/// As visit(), but fails the context (NotSupported) for a dtype left out.
template <class Types, class S, class Body>
void dispatch(KernelRuntimeContext& ctx, ScalarType dtype, Body&& body) {
  if (!Types::template visit<S>(dtype, body)) {
    unsupported_dtype(ctx, dtype);
  }
}

/**
 * Converts one element as PyTorch does: to bool by comparing with zero, to
 * integers by truncation and wrapping.
 */
template <class To, class From>
inline To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (
      std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < sizeof(int32_t)) {
    return static_cast<To>(static_cast<int32_t>(value));
  } else {
    return static_cast<To>(value);
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

/// Whether a result of dtype `from` may be written to an out of dtype `to`: not
/// to a lower category.
bool can_cast(ScalarType from, ScalarType to);

/// Whether the dtype is an integer other than bool.
bool is_integral(ScalarType dtype);

/// Whether the dtype is floating-point.
bool is_floating(ScalarType dtype);

} // namespace native
} // namespace executor
} // namespace torch
