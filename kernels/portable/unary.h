#pragma once

#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/portable/relu.h"
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
    if constexpr (std::is_floating_point_v<T>) {
      return x <= T(0) ? T(0) : x; // NaN stays.
    } else {
      return x > T(0) ? x : T(0);
    }
  }
};

/// In place of map() for floats.
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
