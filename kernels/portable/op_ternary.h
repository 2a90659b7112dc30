#pragma once

#include <optional>

#include "kernels/portable/op_binary.h"

/** Elementwise operators that choose: of three tensors, or by a mask. */
namespace torch::executor::native {

namespace operation {

struct Where {
  template <class T>
  T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

struct ClampBetween {
  template <class T>
  T operator()(T x, T low, T high) const {
    return Minimum()(Maximum()(x, low), high);
  }
};

template <class T>
struct MaskedFill {
  T value;
  T operator()(T x, bool mask) const {
    return mask ? value : x;
  }
};

} // namespace operation

/// aten::where.self_out
template <class S>
Tensor& where_out(
    KernelRuntimeContext& ctx,
    const Tensor& condition,
    const Tensor& self,
    const Tensor& other,
    Tensor& out) {
  if (!dtype_or_fail(ctx, condition, ScalarType::Bool, "condition") ||
      !shape_broadcast<S>(ctx, out, condition, self, other)) {
    return out;
  }
  const ScalarType dtype = internal::common_dtype<S>(ctx, self, other, Compute::Common, out);
  if (dtype == ScalarType::Undefined) {
    return out;
  }
  const Tensor* const inputs[] = {&condition, &self, &other};
  dispatch<AllTypes, S>(ctx, computed_in<S>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T, bool, T, T>(ctx, operation::Where(), inputs, out, dtype);
  });
  return out;
}

/// aten::masked_fill.Scalar_out
template <class S>
Tensor& masked_fill_scalar_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& mask,
    const Scalar& value,
    Tensor& out) {
  if (!dtype_or_fail(ctx, mask, ScalarType::Bool, "mask") ||
      !check_fits<S>(ctx, value, self.scalar_type()) || !shape_broadcast<S>(ctx, out, self, mask)) {
    return out;
  }
  const Tensor* const inputs[] = {&self, &mask};
  const ScalarType dtype = self.scalar_type();
  dispatch<AllTypes, S>(ctx, computed_in<S>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T, T, bool>(
        ctx, operation::MaskedFill<T>{scalar_to<T>(value)}, inputs, out, dtype);
  });
  return out;
}

/// aten::clamp.Tensor_out
template <class S>
Tensor& clamp_tensor_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& min,
    const std::optional<Tensor>& max,
    Tensor& out) {
  KERNEL_CHECK(
      ctx,
      min.has_value() || max.has_value(),
      InvalidArgument,
      out,
      "Neither min nor max is given");
  if (!max.has_value()) {
    return maximum_out<S>(ctx, self, *min, out);
  }
  if (!min.has_value()) {
    return minimum_out<S>(ctx, self, *max, out);
  }
  if (!shape_broadcast<S>(ctx, out, self, *min, *max)) {
    return out;
  }
  ScalarType dtype = self.scalar_type();
  if constexpr (S::has(Variant::MixedDtypes)) {
    const bool zero_dim = self.dim() == 0 && min->dim() == 0;
    dtype = promote(dtype, self.dim() == 0, min->scalar_type(), min->dim() == 0);
    dtype = promote(dtype, zero_dim, max->scalar_type(), max->dim() == 0);
    dtype = compute_dtype(ctx, dtype, Compute::Common, out.scalar_type());
    if (dtype == ScalarType::Undefined) {
      return out;
    }
  }
  const Tensor* const inputs[] = {&self, &*min, &*max};
  dispatch<RealTypes, S>(ctx, computed_in<S>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T, T, T, T>(ctx, operation::ClampBetween(), inputs, out, dtype);
  });
  return out;
}

} // namespace torch::executor::native
