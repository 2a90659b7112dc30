#pragma once

#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/util/elementwise.h"

/**
 * The operators `out = op(self)`. A new one is an operation and its line in the
 * table at the end.
 */
namespace torch {
namespace executor {
namespace native {

namespace operation {

struct Relu {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_same_v<T, float>) {
      // As integers all negative numbers but no NaN are at most -2^23; with the
      // comparison in the core registers this takes three instructions.
      const int32_t bits = static_cast<int32_t>(math::as_bits(x));
      return math::as_float(bits <= -0x800000 ? 0u : static_cast<uint32_t>(bits));
    } else {
      return x > T(0) ? x : T(0);
    }
  }
};

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
      return __builtin_fabsf(x);
    } else {
      return x < T(0) ? Neg()(x) : x;
    }
  }
};

struct Exp {
  float operator()(float x) const {
    return math::exp(x);
  }
};

struct Sigmoid {
  float operator()(float x) const {
    return math::sigmoid(x);
  }
};

struct Tanh {
  float operator()(float x) const {
    return math::tanh(x);
  }
};

} // namespace operation

/// Defines `name`, the kernel of aten's unary operator.
#define UNARY_OPERATOR(name, Operation, Types, compute)                      \
  template <class S>                                                         \
  Tensor& name(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) { \
    return unary<S, Types, Compute::compute>(                                \
        ctx, self, out, [](auto) { return operation::Operation(); });        \
  }

UNARY_OPERATOR(abs_out, Abs, RealTypes, Common)
UNARY_OPERATOR(exp_out, Exp, FloatTypes, Floating)
UNARY_OPERATOR(neg_out, Neg, RealTypes, Common)
UNARY_OPERATOR(relu_out, Relu, RealTypes, Common)
UNARY_OPERATOR(sigmoid_out, Sigmoid, FloatTypes, Floating)
UNARY_OPERATOR(tanh_out, Tanh, FloatTypes, Floating)

#undef UNARY_OPERATOR

} // namespace native
} // namespace executor
} // namespace torch
