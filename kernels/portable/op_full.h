#pragma once

#include <optional>

#include "kernels/util/dtypes.h"
#include "kernels/util/scalars.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// Writes `value` to every element.
template <class S>
Tensor& fill(KernelRuntimeContext& ctx, const Scalar& value, Tensor& out) {
  if (!check_fits<S>(ctx, value, out.scalar_type())) {
    return out;
  }
  dispatch<StoredTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = convert<T>(scalar_to<ComputeType<T>>(value));
    T* to = out.mutable_data_ptr<T>();
    for (auto count = out.numel(); count > 0; --count) {
      *to++ = element;
    }
  });
  return out;
}

/// Gives `out` the shape `size`, which static shapes have already.
template <class S>
bool shape_of_size(KernelRuntimeContext& ctx, const ArrayRef<int64_t>& size, const Tensor& out) {
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape out_sizes;
    if (!in_range(ctx, size, 0, INT32_MAX)) {
      return false;
    }
    for (const int64_t extent : size) {
      out_sizes.append(static_cast<SizesType>(extent));
    }
    return resize_out(ctx, out, out_sizes);
  } else {
    return true;
  }
}

/// aten::full.out
template <class S>
Tensor&
full_out(KernelRuntimeContext& ctx, ArrayRef<int64_t> size, const Scalar& fill_value, Tensor& out) {
  return shape_of_size<S>(ctx, size, out) ? fill<S>(ctx, fill_value, out) : out;
}

/// aten::zeros.out and ones.out.
template <class S, int64_t kValue>
Tensor& constant_out(KernelRuntimeContext& ctx, ArrayRef<int64_t> size, Tensor& out) {
  return full_out<S>(ctx, size, Scalar(kValue), out);
}
template <class S>
constexpr auto& zeros_out = constant_out<S, 0>;
template <class S>
constexpr auto& ones_out = constant_out<S, 1>;

/// aten::empty.out: leaves the elements unchanged.
template <class S>
Tensor& empty_out(
    KernelRuntimeContext& ctx,
    ArrayRef<int64_t> size,
    std::optional<executorch::aten::MemoryFormat> /*memory_format*/,
    Tensor& out) {
  shape_of_size<S>(ctx, size, out);
  return out;
}

/// dim_order_ops::_empty_dim_order.out
template <class S>
Tensor& empty_dim_order_out(
    KernelRuntimeContext& ctx,
    ArrayRef<int64_t> size,
    std::optional<ArrayRef<int64_t>> /*dim_order*/,
    Tensor& out) {
  shape_of_size<S>(ctx, size, out);
  return out;
}

/// aten::scalar_tensor.out
template <class S>
Tensor& scalar_tensor_out(KernelRuntimeContext& ctx, const Scalar& value, Tensor& out) {
  KERNEL_CHECK(ctx, out.numel() == 1, InvalidArgument, out, "out does not have one element");
  return fill<S>(ctx, value, out);
}

/// aten::full_like.out
template <class S>
Tensor& full_like_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Scalar& fill_value,
    std::optional<executorch::aten::MemoryFormat> /*memory_format*/,
    Tensor& out) {
  return shape_like<S>(ctx, out, self) ? fill<S>(ctx, fill_value, out) : out;
}

/// aten::fill.Scalar_out
template <class S>
Tensor&
fill_scalar_out(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& value, Tensor& out) {
  return shape_like<S>(ctx, out, self) ? fill<S>(ctx, value, out) : out;
}

} // namespace torch::executor::native
