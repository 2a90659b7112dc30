#pragma once

#include <optional>
#include <string_view>

#include "kernels/math/double.h"
#include "kernels/math/pow.h"
#include "kernels/math/round.h"
#include "kernels/math/trigonometry.h"
#include "kernels/util/elementwise.h"

/**
 * The operators `out = op(self, other)`, other being a tensor or a Scalar. Integer
 * arithmetic wraps, as in PyTorch, and fails where it divides by zero. Most are an
 * operation and its lines in the table at the end.
 */
namespace torch::executor::native {

namespace operation {

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else {
      return static_cast<T>(static_cast<ArithmeticType<T>>(a) + static_cast<ArithmeticType<T>>(b));
    }
  }
};

struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<ArithmeticType<T>>(a) - static_cast<ArithmeticType<T>>(b));
  }
};

struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a && b;
    } else {
      return static_cast<T>(static_cast<ArithmeticType<T>>(a) * static_cast<ArithmeticType<T>>(b));
    }
  }
};

struct Div {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};

struct Atan2 {
  template <class T>
  T operator()(T a, T b) const {
    return math::atan2(a, b);
  }
};

/// Defines an operation that is an expression of two elements of any type.
#define EXPRESSION(Operation, Result, expression) \
  struct Operation {                              \
    template <class T>                            \
    Result operator()(T a, T b) const {           \
      return static_cast<Result>(expression);     \
    }                                             \
  };

EXPRESSION(Equal, bool, a == b)
EXPRESSION(NotEqual, bool, a != b)
EXPRESSION(Less, bool, a < b)
EXPRESSION(LessEqual, bool, a <= b)
EXPRESSION(Greater, bool, a > b)
EXPRESSION(GreaterEqual, bool, a >= b)
EXPRESSION(LogicalAnd, bool, a != T(0) && b != T(0))
EXPRESSION(LogicalOr, bool, a != T(0) || b != T(0))
EXPRESSION(LogicalXor, bool, (a != T(0)) != (b != T(0)))
EXPRESSION(BitwiseAnd, T, a& b)
EXPRESSION(BitwiseOr, T, a | b)
EXPRESSION(BitwiseXor, T, a ^ b)
// NaN in either wins.
EXPRESSION(Maximum, T, a > b || a != a ? a : b)
EXPRESSION(Minimum, T, a < b || a != a ? a : b)

#undef EXPRESSION

/// The remainder of a division of integers, toward zero; 0 where b is 0.
template <class T>
T integer_remainder(T a, T b) {
  if (b == T(0)) {
    return T(0);
  }
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) {
      return T(0); // This also holds for the lowest number, which has no quotient.
    }
  }
  return static_cast<T>(a % b);
}

/// a * 2^b, truncated to the type; 0 if b is not a number of bits.
struct LeftShift {
  template <class T>
  T operator()(T a, T b) const {
    return is_shift(b) ? static_cast<T>(static_cast<ArithmeticType<T>>(a) << b) : T(0);
  }
  /// Returns whether a number of bits is one of T's.
  template <class T>
  static bool is_shift(T bits) {
    return bits >= T(0) && bits < static_cast<T>(sizeof(T) * 8);
  }
};

/// a / 2^b rounded down; all bits are a's sign for a b that is not a number of bits.
struct RightShift {
  template <class T>
  T operator()(T a, T b) const {
    return LeftShift::is_shift(b) ? static_cast<T>(a >> b) : static_cast<T>(a < T(0) ? -1 : 0);
  }
};

/// Remainder with the dividend's sign.
struct Fmod {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::fmod(a, b);
    } else {
      return integer_remainder(a, b);
    }
  }
};

/// Remainder with the divisor's sign.
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    const T remainder = Fmod()(a, b);
    if (remainder != T(0) && (remainder < T(0)) != (b < T(0))) {
      return static_cast<T>(remainder + b);
    }
    return remainder;
  }
};

/// Quotient rounded toward zero.
struct DivTrunc {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::trunc(a / b);
    } else {
      if (b == T(0)) {
        return T(0);
      }
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) {
          return static_cast<T>(ArithmeticType<T>(0) - static_cast<ArithmeticType<T>>(a));
        }
      }
      return static_cast<T>(a / b);
    }
  }
};

/// Quotient rounded down.
struct DivFloor {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0)) {
        return a / b;
      }
      // Without the remainder, a is divisible up to rounding.
      const T remainder = math::fmod(a, b);
      const bool is_below = remainder != T(0) && (remainder < T(0)) != (b < T(0));
      return math::round_to_even((a - remainder) / b - (is_below ? T(1) : T(0)));
    } else {
      const T quotient = DivTrunc()(a, b);
      const bool is_below = integer_remainder(a, b) != T(0) && (a < T(0)) != (b < T(0));
      return static_cast<T>(quotient - is_below);
    }
  }
};

struct Pow {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::pow(a, b);
    } else {
      if (b < T(0)) {
        // 1 / a^-b, which is no fraction for 1 and -1 only.
        const T sign = (b & 1) != 0 ? a : T(1);
        return a == T(1) ? a : a == static_cast<T>(-1) ? sign : T(0);
      }
      T power = T(1);
      for (; b != T(0); b = static_cast<T>(b >> 1)) {
        if ((b & 1) != 0) {
          power = Mul()(power, a);
        }
        a = Mul()(a, a);
      }
      return power;
    }
  }
};

/// Computes Operation(a, factor * b).
template <class Operation, class T>
struct Scaled {
  T factor;
  T operator()(T a, T b) const {
    return Operation()(a, Mul()(factor, b));
  }
};

/// Computes Operation(a, b) for a constant b.
template <class Operation, class T>
struct WithConstant {
  Operation operation;
  T b;
  auto operator()(T a) const {
    return operation(a, b);
  }
};

/// Computes Operation(a, b) for a constant a.
template <class Operation, class T>
struct OfConstant {
  Operation operation;
  T a;
  T operator()(T b) const {
    return operation(a, b);
  }
};

} // namespace operation

/**
 * Whether integers are divided by zero, which PyTorch refuses: fails the context
 * (InvalidArgument) and returns false.
 */
bool check_divisor(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other);
bool check_divisor(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other);

/// Sets out = self Operation alpha * other.
template <class S, class Types, class Operation>
Tensor& scaled_binary(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& other,
    const Scalar& alpha,
    Tensor& out) {
  return binary<S, Types, Compute::Common>(ctx, self, other, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (S::has(Variant::Alpha)) {
      return operation::Scaled<Operation, T>{scalar_to<T>(alpha)};
    } else {
      static_cast<void>(alpha);
      return Operation();
    }
  });
}

/// Sets out = self Operation other, other a Scalar.
template <class S, class Types, Compute kCompute, class Operation>
Tensor&
binary_scalar(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return unary<S, Types, kCompute>(
      ctx,
      self,
      out,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return operation::WithConstant<Operation, T>{Operation(), operand_of<S, T>(self, other)};
      },
      scalar_dtype(other));
}

template <class S, class Types, class Operation>
Tensor& scaled_binary_scalar(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& other,
    const Scalar& alpha,
    Tensor& out) {
  return unary<S, Types, Compute::Common>(
      ctx,
      self,
      out,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return operation::WithConstant<Operation, T>{
            Operation(), operation::Mul()(scalar_to<T>(alpha), operand_of<S, T>(self, other))};
      },
      scalar_dtype(other));
}

template <class S>
constexpr auto& add_out = scaled_binary<S, AllTypes, operation::Add>;
template <class S>
constexpr auto& add_scalar_out = scaled_binary_scalar<S, AllTypes, operation::Add>;
/// PyTorch has no subtraction of bools.
template <class S>
constexpr auto& sub_out = scaled_binary<S, RealTypes, operation::Sub>;
template <class S>
constexpr auto& sub_scalar_out = scaled_binary_scalar<S, RealTypes, operation::Sub>;

/// Defines `name`, the kernel of aten's operator on two tensors.
#define BINARY_OPERATOR(name, Operation, Types, compute)                                          \
  template <class S>                                                                              \
  Tensor& name(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) { \
    return binary<S, Types, Compute::compute>(                                                    \
        ctx, self, other, out, [](auto) { return operation::Operation(); });                      \
  }

/// Defines the same for a tensor and a Scalar.
#define BINARY_SCALAR_OPERATOR(name, Operation, Types, compute)                                    \
  template <class S>                                                                               \
  Tensor& name(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {  \
    return binary_scalar<S, Types, Compute::compute, operation::Operation>(ctx, self, other, out); \
  }

BINARY_OPERATOR(atan2_out, Atan2, FloatTypes, Floating)
BINARY_OPERATOR(bitwise_and_out, BitwiseAnd, BitTypes, Common)
BINARY_OPERATOR(bitwise_left_shift_out, LeftShift, IntegralTypes, Common)
BINARY_OPERATOR(bitwise_or_out, BitwiseOr, BitTypes, Common)
BINARY_OPERATOR(bitwise_right_shift_out, RightShift, IntegralTypes, Common)
BINARY_OPERATOR(bitwise_xor_out, BitwiseXor, BitTypes, Common)
BINARY_OPERATOR(div_out, Div, FloatTypes, Floating)
BINARY_OPERATOR(eq_out, Equal, AllTypes, Predicate)
BINARY_OPERATOR(ge_out, GreaterEqual, AllTypes, Predicate)
BINARY_OPERATOR(gt_out, Greater, AllTypes, Predicate)
BINARY_OPERATOR(le_out, LessEqual, AllTypes, Predicate)
BINARY_OPERATOR(logical_and_out, LogicalAnd, AllTypes, Predicate)
BINARY_OPERATOR(logical_or_out, LogicalOr, AllTypes, Predicate)
BINARY_OPERATOR(logical_xor_out, LogicalXor, AllTypes, Predicate)
BINARY_OPERATOR(lt_out, Less, AllTypes, Predicate)
BINARY_OPERATOR(maximum_out, Maximum, AllTypes, Common)
BINARY_OPERATOR(minimum_out, Minimum, AllTypes, Common)
BINARY_OPERATOR(mul_out, Mul, AllTypes, Common)
BINARY_OPERATOR(ne_out, NotEqual, AllTypes, Predicate)
BINARY_OPERATOR(pow_out, Pow, RealTypes, Common)
BINARY_SCALAR_OPERATOR(bitwise_and_scalar_out, BitwiseAnd, BitTypes, Common)
BINARY_SCALAR_OPERATOR(bitwise_left_shift_scalar_out, LeftShift, IntegralTypes, Common)
BINARY_SCALAR_OPERATOR(bitwise_or_scalar_out, BitwiseOr, BitTypes, Common)
BINARY_SCALAR_OPERATOR(bitwise_right_shift_scalar_out, RightShift, IntegralTypes, Common)
BINARY_SCALAR_OPERATOR(bitwise_xor_scalar_out, BitwiseXor, BitTypes, Common)
BINARY_SCALAR_OPERATOR(div_scalar_out, Div, FloatTypes, Floating)
BINARY_SCALAR_OPERATOR(eq_scalar_out, Equal, AllTypes, Predicate)
BINARY_SCALAR_OPERATOR(ge_scalar_out, GreaterEqual, AllTypes, Predicate)
BINARY_SCALAR_OPERATOR(gt_scalar_out, Greater, AllTypes, Predicate)
BINARY_SCALAR_OPERATOR(le_scalar_out, LessEqual, AllTypes, Predicate)
BINARY_SCALAR_OPERATOR(lt_scalar_out, Less, AllTypes, Predicate)
BINARY_SCALAR_OPERATOR(mul_scalar_out, Mul, AllTypes, Common)
BINARY_SCALAR_OPERATOR(ne_scalar_out, NotEqual, AllTypes, Predicate)

#undef BINARY_OPERATOR
#undef BINARY_SCALAR_OPERATOR

/// An operator that fails where it divides integers by zero.
template <class S, class Operation>
Tensor& division(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (!check_divisor(ctx, self, other)) {
    return out;
  }
  return binary<S, RealTypes, Compute::Common>(
      ctx, self, other, out, [](auto) { return Operation(); });
}

template <class S, class Operation>
Tensor& division(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  if (!check_divisor(ctx, self, other)) {
    return out;
  }
  return binary_scalar<S, RealTypes, Compute::Common, Operation>(ctx, self, other, out);
}

/// Defines `name`, a kernel that divides; Other is Tensor or Scalar.
#define DIVISION_OPERATOR(name, Operation, Other)                                                \
  template <class S>                                                                             \
  Tensor& name(KernelRuntimeContext& ctx, const Tensor& self, const Other& other, Tensor& out) { \
    return division<S, operation::Operation>(ctx, self, other, out);                             \
  }

DIVISION_OPERATOR(floor_divide_out, DivFloor, Tensor)
DIVISION_OPERATOR(fmod_out, Fmod, Tensor)
DIVISION_OPERATOR(fmod_scalar_out, Fmod, Scalar)
DIVISION_OPERATOR(remainder_out, Remainder, Tensor)
DIVISION_OPERATOR(remainder_scalar_out, Remainder, Scalar)

#undef DIVISION_OPERATOR

/// Divides with a rounding mode: none, "floor" or "trunc".
template <class S, class Other, auto& kUnrounded>
Tensor& rounded_division(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Other& other,
    const std::optional<std::string_view>& mode,
    Tensor& out) {
  if constexpr (S::has(Variant::FirstMode)) {
    if (!mode.has_value()) {
      return kUnrounded(ctx, self, other, out);
    }
  }
  if constexpr (S::has(Variant::SecondMode)) {
    if (mode == "floor") {
      return division<S, operation::DivFloor>(ctx, self, other, out);
    }
  }
  if constexpr (S::has(Variant::ThirdMode)) {
    if (mode == "trunc") {
      return division<S, operation::DivTrunc>(ctx, self, other, out);
    }
  }
  KERNEL_CHECK(
      ctx,
      false,
      InvalidArgument,
      out,
      "The rounding mode is neither floor nor trunc, or not linked in");
}

template <class S>
constexpr auto& div_mode_out = rounded_division<S, Tensor, div_out<S>>;
template <class S>
constexpr auto& div_scalar_mode_out = rounded_division<S, Scalar, div_scalar_out<S>>;

/// Sets out = self ^ exponent for a Scalar exponent; integers take none below 0.
template <class S>
Tensor&
pow_scalar_out(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& exponent, Tensor& out) {
  KERNEL_CHECK(
      ctx,
      is_floating(promote(self.scalar_type(), false, scalar_dtype(exponent), true)) ||
          scalar_to_int(exponent) >= 0,
      InvalidArgument,
      out,
      "Integers have no negative integer powers");
  return check_fits<S>(ctx, exponent, out.scalar_type())
      ? binary_scalar<S, RealTypes, Compute::Common, operation::Pow>(ctx, self, exponent, out)
      : out;
}

/// Sets out = self ^ exponent for a Scalar self.
template <class S>
Tensor& pow_of_scalar_out(
    KernelRuntimeContext& ctx,
    const Scalar& self,
    const Tensor& exponent,
    Tensor& out) {
  return unary<S, RealTypes, Compute::Common>(
      ctx,
      exponent,
      out,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return operation::OfConstant<operation::Pow, T>{
            operation::Pow(), operand_of<S, T>(exponent, self)};
      },
      scalar_dtype(self));
}

/// Sets out = other - alpha * self.
template <class S>
Tensor& rsub_scalar_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& other,
    const Scalar& alpha,
    Tensor& out) {
  return unary<S, RealTypes, Compute::Common>(
      ctx,
      self,
      out,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        using Scaled = operation::Scaled<operation::Sub, T>;
        return operation::OfConstant<Scaled, T>{
            Scaled{scalar_to<T>(alpha)}, operand_of<S, T>(self, other)};
      },
      scalar_dtype(other));
}

} // namespace torch::executor::native
