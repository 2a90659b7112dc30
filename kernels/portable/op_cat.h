#pragma once

#include "kernels/util/elementwise.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/view.h"

namespace torch::executor::native {

/// The shape of tensors put together along a dim, or of equal ones along a new dim; fails the
/// context and returns false if they do not fit together, or their shapes differ. One-dim tensors
/// without elements fit anywhere along a dim and count for nothing, as in PyTorch.
using JoinedSizes = bool(
    KernelRuntimeContext& ctx,
    const ArrayRef<Tensor>& tensors,
    int64_t dim,
    int32_t& index,
    Shape& out_sizes);
JoinedSizes cat_sizes, stack_sizes;

/// Writes a tensor to a part of out of its shape, converting its dtype.
template <class S>
bool write_part(
    KernelRuntimeContext& ctx,
    const Tensor& tensor,
    const View& part,
    const Tensor& out) {
  const ScalarType dtype = tensor.scalar_type();
  if constexpr (!S::has(Variant::MixedDtypes)) {
    if (!same_dtype_or_fail(ctx, tensor, out)) {
      return false;
    }
  } else if (dtype != out.scalar_type()) {
    KERNEL_CHECK(
        ctx,
        can_cast(dtype, out.scalar_type()),
        InvalidType,
        false,
        "dtype %d does not become dtype %d",
        static_cast<int>(dtype),
        static_cast<int>(out.scalar_type()));
    const View from(tensor);
    const int32_t* const strides[] = {from.strides, part.strides};
    LoopNest nest;
    nest.init(from.shape.sizes, strides, 2, from.shape.dims);
    if (nest.size() == 0) {
      return true;
    }
    bool loads = true;
    dispatch<StoredTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      do {
        T* to = reinterpret_cast<T*>(part.data) + nest.offset(1);
        int32_t offset = nest.offset(0);
        // All at once where out is dense.
        const size_t count = nest.stride(1) == 1 ? nest.size() : 1;
        for (size_t done = 0; done < nest.size() && loads; done += count) {
          loads = load_elements<S, T>(dtype, from.data, offset, nest.stride(0), to, count);
          offset += nest.stride(0);
          to += nest.stride(1);
        }
      } while (nest.next() && loads);
    });
    if (!loads) {
      unsupported_dtype(ctx, dtype);
    }
    return loads && ctx.failure_state() == Error::Ok;
  }
  copy_view(View(tensor), part);
  return true;
}

/// aten::cat.out
template <class S>
Tensor& cat_out(KernelRuntimeContext& ctx, ArrayRef<Tensor> tensors, int64_t dim, Tensor& out) {
  Shape out_sizes;
  int32_t index = 0;
  if (!cat_sizes(ctx, tensors, dim, index, out_sizes) || !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  const size_t axis = static_cast<size_t>(index);
  const Split split = split_tensor<S>(out, axis);
  const int32_t step = static_cast<int32_t>(split.inner) * static_cast<int32_t>(out.element_size());
  char* to = static_cast<char*>(out.mutable_data_ptr());
  int32_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) {
      continue;
    }
    const int32_t count = tensor.sizes()[axis];
    const bool is_same = tensor.scalar_type() == out.scalar_type() &&
        (!S::has(Variant::DimOrder) || same_dim_order(tensor, out));
    if (is_same) {
      const char* const from = static_cast<const char*>(tensor.const_data_ptr());
      const int32_t bytes = count * step;
      copy_dense_rows(
          from,
          bytes,
          to + start * step,
          static_cast<int32_t>(split.size) * step,
          static_cast<size_t>(bytes),
          split.outer);
    } else {
      View part(out);
      part.slice(axis, start, 1, count);
      if (!write_part<S>(ctx, tensor, part, out)) {
        return out;
      }
    }
    start += count;
  }
  return out;
}

/// aten::stack.out
template <class S>
Tensor& stack_out(KernelRuntimeContext& ctx, ArrayRef<Tensor> tensors, int64_t dim, Tensor& out) {
  Shape out_sizes;
  int32_t index = 0;
  if (!stack_sizes(ctx, tensors, dim, index, out_sizes) || !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    View part(out);
    part.select(static_cast<size_t>(index), static_cast<int32_t>(i));
    if (!write_part<S>(ctx, tensors[i], part, out)) {
      return out;
    }
  }
  return out;
}

} // namespace torch::executor::native
