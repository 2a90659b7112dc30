#pragma once

#include <optional>
#include <string_view>

#include "kernels/util/elementwise.h"

/**
 * The operators `out = op(self, other)`, other being a tensor or a Scalar. Integer
 * arithmetic wraps, as in PyTorch.
 */
namespace torch {
namespace executor {
namespace native {

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
  float operator()(float a, float b) const {
    return a / b;
  }
};

/// Operation(a, factor * b)
template <class Operation, class T>
struct Scaled {
  T factor;
  T operator()(T a, T b) const {
    return Operation()(a, Mul()(factor, b));
  }
};

/// Operation(a, b) for a constant b.
template <class Operation, class T>
struct WithConstant {
  Operation operation;
  T b;
  T operator()(T a) const {
    return operation(a, b);
  }
};

} // namespace operation

/// out = self Operation alpha * other
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

/// out = self Operation other, other a Scalar
template <class S, class Types, Compute kCompute, class Operation>
Tensor&
binary_scalar(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return unary<S, Types, kCompute>(
      ctx,
      self,
      out,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return operation::WithConstant<Operation, T>{Operation(), scalar_to<T>(other)};
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
            Operation(), operation::Mul()(scalar_to<T>(alpha), scalar_to<T>(other))};
      },
      scalar_dtype(other));
}

template <class S>
Tensor& add_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& other,
    const Scalar& alpha,
    Tensor& out) {
  return scaled_binary<S, AllTypes, operation::Add>(ctx, self, other, alpha, out);
}

template <class S>
Tensor& add_scalar_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& other,
    const Scalar& alpha,
    Tensor& out) {
  return scaled_binary_scalar<S, AllTypes, operation::Add>(ctx, self, other, alpha, out);
}

/// PyTorch has no subtraction of bools.
template <class S>
Tensor& sub_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& other,
    const Scalar& alpha,
    Tensor& out) {
  return scaled_binary<S, RealTypes, operation::Sub>(ctx, self, other, alpha, out);
}

template <class S>
Tensor& sub_scalar_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& other,
    const Scalar& alpha,
    Tensor& out) {
  return scaled_binary_scalar<S, RealTypes, operation::Sub>(ctx, self, other, alpha, out);
}

template <class S>
Tensor& mul_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return binary<S, AllTypes, Compute::Common>(
      ctx, self, other, out, [](auto) { return operation::Mul(); });
}

template <class S>
Tensor&
mul_scalar_out(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return binary_scalar<S, AllTypes, Compute::Common, operation::Mul>(ctx, self, other, out);
}

/// True division: integers divide as floats.
template <class S>
Tensor& div_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return binary<S, FloatTypes, Compute::Floating>(
      ctx, self, other, out, [](auto) { return operation::Div(); });
}

template <class S>
Tensor&
div_scalar_out(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return binary_scalar<S, FloatTypes, Compute::Floating, operation::Div>(ctx, self, other, out);
}

} // namespace native
} // namespace executor
} // namespace torch
