#pragma once

#include <string_view>

#include "kernels/math/double.h"
#include "kernels/math/erf.h"
#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/math/log.h"
#include "kernels/math/round.h"
#include "kernels/util/elementwise.h"

/** Elementwise operators of one tensor with parameters. */
namespace torch {
namespace executor {
namespace native {

namespace operation {

struct Gelu {
  template <class T>
  T operator()(T x) const {
    return T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752)));
  }
};

struct GeluTanh {
  template <class T>
  T operator()(T x) const {
    // sqrt(2 / pi) (x + 0.044715 x^3)
    return T(0.5) * x * (T(1) + math::tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x)));
  }
};

template <class T>
struct LeakyRelu {
  T slope;
  T operator()(T x) const {
    return x > T(0) ? x : x * slope;
  }
};

template <class T>
struct Elu {
  T positive;
  T negative;
  T input;
  T operator()(T x) const {
    return x > T(0) ? x * positive : negative * math::expm1(x * input);
  }
};

template <class T>
struct Logit {
  bool is_clamped;
  T eps;
  T operator()(T x) const {
    if (is_clamped) {
      x = math::clamp(x, eps, T(1) - eps);
    }
    return math::log(x / (T(1) - x));
  }
};

/// Bounds that may be missing: the higher one wins, and NaN stays.
template <class T>
struct Clamp {
  bool has_low;
  bool has_high;
  T low;
  T high;
  T operator()(T x) const {
    if (has_low && !(x >= low) && x == x) {
      x = low;
    }
    if (has_high && !(x <= high) && x == x) {
      x = high;
    }
    return x;
  }
};

} // namespace operation

/// aten::gelu.out
template <class S>
Tensor&
gelu_out(KernelRuntimeContext& ctx, const Tensor& self, std::string_view approximate, Tensor& out) {
  if (approximate == "none") {
    return unary<S, FloatTypes, Compute::Common>(
        ctx, self, out, [](auto) { return operation::Gelu(); });
  }
  KERNEL_CHECK(
      ctx,
      approximate == "tanh",
      InvalidArgument,
      out,
      "The approximation is neither none nor tanh");
  return unary<S, FloatTypes, Compute::Common>(
      ctx, self, out, [](auto) { return operation::GeluTanh(); });
}

/// aten::leaky_relu.out
template <class S>
Tensor& leaky_relu_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& negative_slope,
    Tensor& out) {
  return unary<S, FloatTypes, Compute::Common>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return operation::LeakyRelu<T>{scalar_to<T>(negative_slope)};
  });
}

/// aten::elu.out
template <class S>
Tensor& elu_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& alpha,
    const Scalar& scale,
    const Scalar& input_scale,
    Tensor& out) {
  return unary<S, FloatTypes, Compute::Common>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T positive = scalar_to<T>(scale);
    return operation::Elu<T>{positive, scalar_to<T>(alpha) * positive, scalar_to<T>(input_scale)};
  });
}

/// aten::logit.out
template <class S>
Tensor& logit_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<double>& eps,
    Tensor& out) {
  return unary<S, FloatTypes, Compute::Floating>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return operation::Logit<T>{eps.has_value(), static_cast<T>(eps.value_or(0.0))};
  });
}

/// aten::clamp.out
template <class S>
Tensor& clamp_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Scalar>& min,
    const std::optional<Scalar>& max,
    Tensor& out) {
  ScalarType operand = ScalarType::Bool;
  for (const std::optional<Scalar>* bound : {&min, &max}) {
    if (bound->has_value()) {
      operand = promote(operand, true, scalar_dtype(**bound), true);
    }
  }
  return unary<S, RealTypes, Compute::Common>(
      ctx,
      self,
      out,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return operation::Clamp<T>{
            min.has_value(),
            max.has_value(),
            min.has_value() ? scalar_to<T>(*min) : T(0),
            max.has_value() ? scalar_to<T>(*max) : T(0)};
      },
      operand);
}

/// aten::hardtanh.out
template <class S>
Tensor& hardtanh_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& min_val,
    const Scalar& max_val,
    Tensor& out) {
  return unary<S, RealTypes, Compute::Common>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return operation::Clamp<T>{true, true, scalar_to<T>(min_val), scalar_to<T>(max_val)};
  });
}

} // namespace native
} // namespace executor
} // namespace torch
