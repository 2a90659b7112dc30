#pragma once

#include <cstdint>

#include <executorch/runtime/core/exec_aten/exec_aten.h>

namespace torch::executor::native {

using executorch::aten::ScalarType;

/**
 * What a kernel has to cope with beyond contiguous tensors of one dtype, equal
 * and static shapes, and default scalar arguments. tools/pipeline/registry derives the
 * bits from a program's call sites, and its variants.py says when each is set;
 * tools/abi/layouts has the same names and values.
 */
enum class Variant : uint32_t {
  /// Operands of one call differ in shape.
  Broadcast = 1u << 0,
  /// Tensors of one call differ in dtype.
  MixedDtypes = 1u << 1,
  /// A tensor has a dim order other than 0, 1, 2, ...
  DimOrder = 1u << 2,
  /// A tensor's shape is only known at run time.
  DynamicShape = 1u << 3,
  /// `alpha` or `beta` is not 1.
  Alpha = 1u << 4,
  /// Something reads the operator's second output.
  Indices = 1u << 5,
  /// A symbol of the call is a floating-point number.
  FloatingSymbols = 1u << 6,
  /// A Bool that operators.yaml lists as an option is true.
  Option = 1u << 7,
  /// A string argument, or None, is the first, second or third of those that
  /// operators.yaml lists.
  FirstMode = 1u << 8,
  SecondMode = 1u << 9,
  ThirdMode = 1u << 10,
  /// A list that operators.yaml names holds a mask: a tensor of Bool or Byte.
  Masks = 1u << 11,
};

/**
 * The dtypes and variants that a program needs of an operator. A kernel is a template on its
 * Selection and omits the rest from the image.
 */
template <uint64_t kDtypes, uint32_t kVariants = ~uint32_t{0}>
struct Selection {
  static constexpr bool has(ScalarType dtype) {
    return (kDtypes >> static_cast<unsigned>(dtype)) & 1u;
  }
  static constexpr bool has(Variant variant) {
    return (kVariants & static_cast<uint32_t>(variant)) != 0;
  }
};

/// Every dtype and every variant: for tools that run any program.
using SelectAll = Selection<~uint64_t{0}>;

} // namespace torch::executor::native
