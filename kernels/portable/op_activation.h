#pragma once

#include <string_view>

#include "kernels/math/double.h"
#include "kernels/math/erf.h"
#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/math/log.h"
#include "kernels/math/round.h"
#include "kernels/util/elementwise.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

/** Elementwise operators of one tensor with parameters. */
namespace torch::executor::native {

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

/// x tanh(log(1 + e^x))
struct Mish {
  template <class T>
  T operator()(T x) const {
    return x * math::tanh(math::log1p(math::exp(x)));
  }
};

template <class T>
struct Softplus {
  T beta;
  T threshold;
  T operator()(T x) const {
    const T scaled = x * beta;
    return scaled > threshold ? x : math::log1p(math::exp(scaled)) / beta;
  }
};

template <class T>
struct Threshold {
  T threshold;
  T value;
  T operator()(T x) const {
    return x <= threshold ? value : x;
  }
};

template <class T>
struct HardShrink {
  T bound;
  T operator()(T x) const {
    return x >= -bound && x <= bound ? T(0) : x;
  }
};

template <class T>
struct SoftShrink {
  T bound;
  T operator()(T x) const {
    return x > bound ? x - bound : x < -bound ? x + bound : x * T(0); // NaN stays.
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

/// aten::gelu.out; its modes are none and tanh.
template <class S>
Tensor&
gelu_out(KernelRuntimeContext& ctx, const Tensor& self, std::string_view approximate, Tensor& out) {
  if constexpr (S::has(Variant::FirstMode)) {
    if (approximate == "none") {
      return unary<S, FloatTypes, Compute::Common>(
          ctx, self, out, [](auto) { return operation::Gelu(); });
    }
  }
  if constexpr (S::has(Variant::SecondMode)) {
    if (approximate == "tanh") {
      return unary<S, FloatTypes, Compute::Common>(
          ctx, self, out, [](auto) { return operation::GeluTanh(); });
    }
  }
  KERNEL_CHECK(
      ctx,
      false,
      InvalidArgument,
      out,
      "The approximation is neither none nor tanh, or not linked in");
}

/// aten::mish.out
template <class S>
Tensor& mish_out(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  return unary<S, FloatTypes, Compute::Common>(
      ctx, self, out, [](auto) { return operation::Mish(); });
}

/// aten::softplus.out
template <class S>
Tensor& softplus_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& beta,
    const Scalar& threshold,
    Tensor& out) {
  return unary<S, FloatTypes, Compute::Common>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return operation::Softplus<T>{scalar_to<T>(beta), scalar_to<T>(threshold)};
  });
}

/// aten::threshold.out
template <class S>
Tensor& threshold_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& threshold,
    const Scalar& value,
    Tensor& out) {
  return unary<S, RealTypes, Compute::Common>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return operation::Threshold<T>{scalar_to<T>(threshold), scalar_to<T>(value)};
  });
}

/// aten::hardshrink.out and softshrink.out.
template <class S, template <class> class Operation>
Tensor&
shrink_out(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& lambd, Tensor& out) {
  return unary<S, FloatTypes, Compute::Common>(ctx, self, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Operation<T>{scalar_to<T>(lambd)};
  });
}
template <class S>
constexpr auto& hardshrink_out = shrink_out<S, operation::HardShrink>;
template <class S>
constexpr auto& softshrink_out = shrink_out<S, operation::SoftShrink>;

namespace internal {

/// glu of tensors of any dim orders; `axis` is the dim of self that is halved.
template <class T>
void glu_strided(const Tensor& self, int32_t axis, Tensor& out) {
  using C = ComputeType<T>;
  int32_t from[kMaxDims];
  int32_t to[kMaxDims];
  strides_of(self, from);
  strides_of(out, to);
  const int32_t half = out.sizes()[static_cast<size_t>(axis)] * from[axis];
  const int32_t* const strides[] = {from, to};
  LoopNest nest;
  nest.init(out.sizes().data(), strides, 2, out.sizes().size());
  do {
    const T* x = self.const_data_ptr<T>() + nest.offset(0);
    T* y = out.mutable_data_ptr<T>() + nest.offset(1);
    for (size_t i = 0; i < nest.size() && out.numel() > 0; ++i) {
      *y = convert<T>(static_cast<C>(*x) * math::sigmoid(static_cast<C>(x[half])));
      x += nest.stride(0);
      y += nest.stride(1);
    }
  } while (nest.next());
}

} // namespace internal

/// aten::glu.out: one half of a dim times the sigmoid of the other.
template <class S>
Tensor& glu_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  const int32_t index = normalize_dim(ctx, dim, self.dim());
  if (index < 0 || !same_dtype_or_fail(ctx, self, out)) {
    return out;
  }
  KERNEL_CHECK(
      ctx,
      self.dim() > 0 && self.size(index) % 2 == 0,
      InvalidArgument,
      out,
      "The dim to halve does not have an even size");
  Shape out_sizes(self.sizes());
  out_sizes.sizes[index] /= 2;
  if (!shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  if constexpr (S::has(Variant::DimOrder)) {
    if (!is_contiguous(self) || !is_contiguous(out)) {
      dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
        internal::glu_strided<typename decltype(tag)::type>(self, index, out);
      });
      return out;
    }
  }
  const Split split = split_at(out_sizes, static_cast<size_t>(index));
  const size_t half = split.size * split.inner;
  dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = self.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (size_t outer = 0; outer < split.outer; ++outer, from += 2 * half, to += half) {
      for (size_t i = 0; i < half; ++i) {
        to[i] = convert<T>(static_cast<C>(from[i]) * math::sigmoid(static_cast<C>(from[half + i])));
      }
    }
  });
  return out;
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
    return operation::Logit<T>{eps.has_value(), parameter_of<T>(eps.value_or(0.0))};
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
      if (!check_fits<S>(ctx, **bound, out.scalar_type())) {
        return out;
      }
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

} // namespace torch::executor::native
