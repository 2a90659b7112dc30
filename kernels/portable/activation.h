#pragma once

#include <string_view>

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
  float operator()(float x) const {
    return 0.5f * x * (1.0f + math::erf(x * 0.707106781f));
  }
};

struct GeluTanh {
  float operator()(float x) const {
    // sqrt(2 / pi) (x + 0.044715 x^3)
    return 0.5f * x * (1.0f + math::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
  }
};

struct LeakyRelu {
  float slope;
  float operator()(float x) const {
    return x > 0.0f ? x : x * slope;
  }
};

struct Elu {
  float positive;
  float negative;
  float input;
  float operator()(float x) const {
    return x > 0.0f ? x * positive : negative * math::expm1(x * input);
  }
};

struct Logit {
  bool is_clamped;
  float eps;
  float operator()(float x) const {
    if (is_clamped) {
      x = math::clamp(x, eps, 1.0f - eps);
    }
    return math::log(x / (1.0f - x));
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
  return unary<S, FloatTypes, Compute::Common>(
      ctx, self, out, [&](auto) { return operation::LeakyRelu{scalar_to_float(negative_slope)}; });
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
  return unary<S, FloatTypes, Compute::Common>(ctx, self, out, [&](auto) {
    const float positive = scalar_to_float(scale);
    return operation::Elu{
        positive, scalar_to_float(alpha) * positive, scalar_to_float(input_scale)};
  });
}

/// aten::logit.out
template <class S>
Tensor& logit_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<double>& eps,
    Tensor& out) {
  return unary<S, FloatTypes, Compute::Floating>(ctx, self, out, [&](auto) {
    return operation::Logit{eps.has_value(), static_cast<float>(eps.value_or(0.0))};
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
