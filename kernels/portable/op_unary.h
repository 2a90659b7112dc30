#pragma once

#include <limits>

#include "kernels/math/double.h"
#include "kernels/math/erf.h"
#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/math/log.h"
#include "kernels/math/round.h"
#include "kernels/math/trigonometry.h"
#include "kernels/portable/relu.h"
#include "kernels/util/elementwise.h"

/**
 * The operators `out = op(self)`. A new one is an operation and its line in the
 * table at the end.
 */
namespace torch::executor::native {

namespace operation {

struct Relu {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return x <= T(0) ? T(0) : x; // NaN stays.
    } else {
      return x > T(0) ? x : T(0);
    }
  }
};

/// Replaces map() for floats.
inline void map(const Relu&, const float* in, float* out, size_t count) {
  relu(in, out, count);
}

struct Neg {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return -x;
    } else {
      return static_cast<T>(ArithmeticType<T>(0) - static_cast<ArithmeticType<T>>(x));
    }
  }
};

struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::magnitude(x);
    } else {
      return x < T(0) ? Neg()(x) : x;
    }
  }
};

struct Sign {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>) {
      return x;
    } else {
      return static_cast<T>((x > T(0)) - (x < T(0)));
    }
  }
};

struct BitwiseNot {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>) {
      return !x;
    } else {
      return static_cast<T>(~x);
    }
  }
};

struct LogicalNot {
  template <class T>
  bool operator()(T x) const {
    return x == T(0);
  }
};

struct IsNan {
  template <class T>
  bool operator()(T x) const {
    return x != x;
  }
};

struct IsInf {
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::magnitude(x) > std::numeric_limits<T>::max();
    } else {
      return false;
    }
  }
};

/// Defines an operation that rounds floats by a function, and leaves integers.
#define ROUNDING(Operation, function)              \
  struct Operation {                               \
    template <class T>                             \
    T operator()(T x) const {                      \
      if constexpr (std::is_floating_point_v<T>) { \
        return math::function(x);                  \
      } else {                                     \
        return x;                                  \
      }                                            \
    }                                              \
  };

ROUNDING(Ceil, ceil)
ROUNDING(Floor, floor)
ROUNDING(Round, round_to_even)
ROUNDING(Trunc, trunc)

#undef ROUNDING

/// Defines an operation that is a function of a float or double.
#define FUNCTION(Operation, expression) \
  struct Operation {                    \
    template <class T>                  \
    T operator()(T x) const {           \
      return expression;                \
    }                                   \
  };

FUNCTION(Acos, math::acos(x))
FUNCTION(Acosh, math::acosh(x))
FUNCTION(Asin, math::asin(x))
FUNCTION(Asinh, math::asinh(x))
FUNCTION(Atan, math::atan2(x, T(1)))
FUNCTION(Atanh, math::atanh(x))
FUNCTION(Cos, math::cos(x))
FUNCTION(Cosh, math::cosh(x))
FUNCTION(Erf, math::erf(x))
FUNCTION(Exp, math::exp(x))
FUNCTION(Expm1, math::expm1(x))
FUNCTION(HardSigmoid, math::clamp(x + T(3), T(0), T(6)) / T(6))
FUNCTION(HardSwish, x* math::clamp(x + T(3), T(0), T(6)) / T(6))
FUNCTION(Log, math::log(x))
FUNCTION(Log10, math::log10(x))
FUNCTION(Log1p, math::log1p(x))
FUNCTION(Log2, math::log2(x))
FUNCTION(Reciprocal, T(1) / x)
FUNCTION(Rsqrt, T(1) / math::sqrt(x))
FUNCTION(Sigmoid, math::sigmoid(x))
FUNCTION(Silu, x / (T(1) + math::exp(-x)))
FUNCTION(Sin, math::sin(x))
FUNCTION(Sinh, math::sinh(x))
FUNCTION(Sqrt, math::sqrt(x))
FUNCTION(Tan, math::tan(x))
FUNCTION(Tanh, math::tanh(x))

#undef FUNCTION

/// Replaces map() for floats.
inline void map(const Sigmoid&, const float* in, float* out, size_t count) {
  math::sigmoid(in, out, count);
}

} // namespace operation

/// Defines `name`, the kernel of aten's unary operator.
#define UNARY_OPERATOR(name, Operation, Types, compute)                      \
  template <class S>                                                         \
  Tensor& name(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) { \
    return unary<S, Types, Compute::compute>(                                \
        ctx, self, out, [](auto) { return operation::Operation(); });        \
  }

UNARY_OPERATOR(abs_out, Abs, RealTypes, Common)
UNARY_OPERATOR(acos_out, Acos, FloatTypes, Floating)
UNARY_OPERATOR(acosh_out, Acosh, FloatTypes, Floating)
UNARY_OPERATOR(asin_out, Asin, FloatTypes, Floating)
UNARY_OPERATOR(asinh_out, Asinh, FloatTypes, Floating)
UNARY_OPERATOR(atan_out, Atan, FloatTypes, Floating)
UNARY_OPERATOR(atanh_out, Atanh, FloatTypes, Floating)
UNARY_OPERATOR(bitwise_not_out, BitwiseNot, BitTypes, Common)
UNARY_OPERATOR(ceil_out, Ceil, RealTypes, Common)
UNARY_OPERATOR(cos_out, Cos, FloatTypes, Floating)
UNARY_OPERATOR(cosh_out, Cosh, FloatTypes, Floating)
UNARY_OPERATOR(erf_out, Erf, FloatTypes, Floating)
UNARY_OPERATOR(exp_out, Exp, FloatTypes, Floating)
UNARY_OPERATOR(expm1_out, Expm1, FloatTypes, Floating)
UNARY_OPERATOR(floor_out, Floor, RealTypes, Common)
UNARY_OPERATOR(hardsigmoid_out, HardSigmoid, FloatTypes, Common)
UNARY_OPERATOR(hardswish_out, HardSwish, FloatTypes, Common)
UNARY_OPERATOR(isinf_out, IsInf, AllTypes, Predicate)
UNARY_OPERATOR(isnan_out, IsNan, AllTypes, Predicate)
UNARY_OPERATOR(log_out, Log, FloatTypes, Floating)
UNARY_OPERATOR(log10_out, Log10, FloatTypes, Floating)
UNARY_OPERATOR(log1p_out, Log1p, FloatTypes, Floating)
UNARY_OPERATOR(log2_out, Log2, FloatTypes, Floating)
UNARY_OPERATOR(logical_not_out, LogicalNot, AllTypes, Predicate)
UNARY_OPERATOR(neg_out, Neg, RealTypes, Common)
UNARY_OPERATOR(reciprocal_out, Reciprocal, FloatTypes, Floating)
UNARY_OPERATOR(relu_out, Relu, RealTypes, Common)
UNARY_OPERATOR(round_out, Round, RealTypes, Common)
UNARY_OPERATOR(rsqrt_out, Rsqrt, FloatTypes, Floating)
UNARY_OPERATOR(sigmoid_out, Sigmoid, FloatTypes, Floating)
UNARY_OPERATOR(sign_out, Sign, AllTypes, Common)
UNARY_OPERATOR(silu_out, Silu, FloatTypes, Common)
UNARY_OPERATOR(sin_out, Sin, FloatTypes, Floating)
UNARY_OPERATOR(sinh_out, Sinh, FloatTypes, Floating)
UNARY_OPERATOR(sqrt_out, Sqrt, FloatTypes, Floating)
UNARY_OPERATOR(tan_out, Tan, FloatTypes, Floating)
UNARY_OPERATOR(tanh_out, Tanh, FloatTypes, Floating)
UNARY_OPERATOR(trunc_out, Trunc, RealTypes, Common)

#undef UNARY_OPERATOR

} // namespace torch::executor::native
