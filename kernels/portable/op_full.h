#pragma once

#include <optional>

#include "kernels/util/dtypes.h"
#include "kernels/util/scalars.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/// Writes `value` to every element.
template <class S>
void fill(KernelRuntimeContext& ctx, const Scalar& value, Tensor& out) {
  dispatch<StoredTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = convert<T>(scalar_to<ComputeType<T>>(value));
    T* to = out.mutable_data_ptr<T>();
    for (auto count = out.numel(); count > 0; --count) {
      *to++ = element;
    }
  });
}

/// aten::full.out
template <class S>
Tensor&
full_out(KernelRuntimeContext& ctx, ArrayRef<int64_t> size, const Scalar& fill_value, Tensor& out) {
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape out_sizes;
    if (!in_range(ctx, size, 0, INT32_MAX)) {
      return out;
    }
    for (const int64_t extent : size) {
      out_sizes.append(static_cast<SizesType>(extent));
    }
    if (!resize_out(ctx, out, out_sizes)) {
      return out;
    }
  }
  fill<S>(ctx, fill_value, out);
  return out;
}

/// aten::full_like.out
template <class S>
Tensor& full_like_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& fill_value,
    std::optional<executorch::aten::MemoryFormat> /*memory_format*/,
    Tensor& out) {
  if (shape_like<S>(ctx, out, self)) {
    fill<S>(ctx, fill_value, out);
  }
  return out;
}

/// aten::fill.Scalar_out
template <class S>
Tensor&
fill_scalar_out(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& value, Tensor& out) {
  if (shape_like<S>(ctx, out, self)) {
    fill<S>(ctx, value, out);
  }
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
