#pragma once

#include <optional>

#include "kernels/portable/op_copy.h"
#include "kernels/util/elementwise.h"

/** Operators that copy a tensor: unchanged, to another dtype, or broadcast. */
namespace torch::executor::native {

namespace internal {

/// Sets out = source broadcast to the shape that out has, converted to its dtype.
template <class S>
Tensor& broadcast_copy(KernelRuntimeContext& ctx, const Tensor& source, Tensor& out) {
  const Tensor* const inputs[] = {&source};
  const ScalarType dtype = source.scalar_type();
  dispatch<AllTypes, S>(ctx, computed_in<S>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<S, T, T>(ctx, [](T x) { return x; }, inputs, out, dtype);
  });
  return out;
}

} // namespace internal

/// aten::alias_copy.out, aten::detach_copy.out, aten::lift_fresh_copy.out, et_copy::_h2d_copy.out
/// and et_copy::_d2h_copy.out, for which host and device are the same; and aten::_conj_physical.out
/// of real numbers.
template <class S>
Tensor& alias_copy_out(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  return same_dtype_or_fail(ctx, self, out) ? convert_copy<S>(ctx, self, out) : out;
}

/// aten::_to_copy.out: the export has given out its dtype and dim order.
template <class S>
Tensor& to_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    bool /*non_blocking*/,
    std::optional<executorch::aten::MemoryFormat> /*memory_format*/,
    Tensor& out) {
  return convert_copy<S>(ctx, self, out);
}

/// aten::copy.out: src as self, which gives its shape and dtype only.
template <class S>
Tensor& copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& src,
    bool /*non_blocking*/,
    Tensor& out) {
  if (same_dtype_or_fail(ctx, self, out) && shape_like<S>(ctx, out, self)) {
    internal::broadcast_copy<S>(ctx, src, out);
  }
  return out;
}

/// aten::copy_
template <class S>
Tensor&
copy_in_place(KernelRuntimeContext& ctx, Tensor& self, const Tensor& src, bool /*non_blocking*/) {
  return internal::broadcast_copy<S>(ctx, src, self);
}

/// aten::fill.Tensor_out
template <class S>
Tensor&
fill_tensor_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& value, Tensor& out) {
  KERNEL_CHECK(ctx, value.dim() == 0, InvalidArgument, out, "value is not a zero-dim tensor");
  if (same_dtype_or_fail(ctx, self, out) && shape_like<S>(ctx, out, self)) {
    internal::broadcast_copy<S>(ctx, value, out);
  }
  return out;
}

} // namespace torch::executor::native
