#pragma once

#include <cstring>
#include <optional>

#include "kernels/util/dtypes.h"
#include "kernels/util/elementwise.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/view.h"

/**
 * Operators that only move elements: their size matters, their dtype does not.
 */
namespace torch::executor::native {

/// Copies all elements in memory order; nothing if they are there already.
/// Fails the context if the tensors differ in dtype or number of elements.
void copy_elements(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out);

/// Copies all elements in the order of their indices to a contiguous out;
/// fails the context as copy_elements() does, and for an out in another order.
void copy_in_order(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out);

/// Copies self's elements to an out of another shape, whose sizes have been checked.
template <class S>
void copy_reshaped(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if constexpr (S::has(Variant::DimOrder)) {
    copy_in_order(ctx, self, out);
  } else {
    copy_elements(ctx, self, out);
  }
}

template <class S>
Tensor& permute_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> dims,
    Tensor& out) {
  View view;
  return permute(ctx, View(self), dims, view) ? write_view<S>(ctx, self, view, out) : out;
}

template <class S>
Tensor& transpose_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim0,
    int64_t dim1,
    Tensor& out) {
  const int32_t first = normalize_dim(ctx, dim0, self.dim());
  const int32_t second = normalize_dim(ctx, dim1, self.dim());
  if (first < 0 || second < 0) {
    return out;
  }
  View view(self);
  if (first != second) {
    view.transpose(static_cast<size_t>(first), static_cast<size_t>(second));
  }
  return write_view<S>(ctx, self, view, out);
}

/// aten::t_copy.out: transposes a matrix, and copies a vector.
template <class S>
Tensor& t_copy_out(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  KERNEL_CHECK(ctx, self.dim() <= 2, InvalidArgument, out, "self has more than 2 dims");
  View view(self);
  if (view.shape.dims == 2) {
    view.transpose(0, 1);
  }
  return write_view<S>(ctx, self, view, out);
}

template <class S>
Tensor&
view_copy_out(KernelRuntimeContext& ctx, const Tensor& self, ArrayRef<int64_t> size, Tensor& out) {
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape out_sizes;
    if (!infer_view(ctx, self, size, out_sizes) || !resize_out(ctx, out, out_sizes)) {
      return out;
    }
  }
  copy_reshaped<S>(ctx, self, out);
  return out;
}

template <class S>
Tensor&
unsqueeze_copy_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  const int32_t index = normalize_dim(ctx, dim, self.dim() + 1);
  if (index < 0) {
    return out;
  }
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape out_sizes;
    const auto sizes = self.sizes();
    for (size_t i = 0; i <= sizes.size(); ++i) {
      if (static_cast<int32_t>(i) == index) {
        out_sizes.append(1);
      }
      if (i < sizes.size()) {
        out_sizes.append(sizes[i]);
      }
    }
    if (!resize_out(ctx, out, out_sizes)) {
      return out;
    }
  }
  copy_reshaped<S>(ctx, self, out);
  return out;
}

/// Removes those of the dims `dims` that have size 1.
template <class S>
Tensor& squeeze_copy_dims_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> dims,
    Tensor& out) {
  uint32_t squeezed = 0;
  for (const int64_t dim : dims) {
    const int32_t index = normalize_dim(ctx, dim, self.dim());
    if (index < 0) {
      return out;
    }
    squeezed |= 1u << index;
  }
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape out_sizes;
    const auto sizes = self.sizes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (((squeezed >> i) & 1u) == 0 || sizes[i] != 1) {
        out_sizes.append(sizes[i]);
      }
    }
    if (!resize_out(ctx, out, out_sizes)) {
      return out;
    }
  }
  copy_reshaped<S>(ctx, self, out);
  return out;
}

template <class S>
Tensor&
squeeze_copy_dim_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  return squeeze_copy_dims_out<S>(ctx, self, ArrayRef<int64_t>(&dim, 1), out);
}

/// Repeats a view's dims of size 1 to `size`, in which -1 keeps a size, and adds
/// dims before them. Fails the context (InvalidArgument) and returns false if
/// that does not fit.
bool expand(KernelRuntimeContext& ctx, View& view, const ArrayRef<int64_t>& size);

template <class S>
Tensor& expand_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> size,
    bool /*implicit*/,
    Tensor& out) {
  View view(self);
  return expand(ctx, view, size) ? write_view<S>(ctx, self, view, out) : out;
}

/// Copies self to an out of its shape in out's dim order. Fails the context if
/// the tensors differ in dtype or number of elements.
template <class S>
void copy_same(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if constexpr (S::has(Variant::DimOrder)) {
    if (same_dtype_or_fail(ctx, self, out) && compare_out(ctx, out, self.sizes())) {
      copy_view(View(self), View(out), CopyOrder::LongestFirst);
    }
  } else {
    copy_elements(ctx, self, out);
  }
}

/// Copies self to out in out's dim order, converting its dtype.
template <class S>
Tensor& convert_copy(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if (!shape_like<S>(ctx, out, self)) {
    return out;
  }
  if constexpr (S::has(Variant::MixedDtypes)) {
    if (self.scalar_type() != out.scalar_type()) {
      const Tensor* const inputs[] = {&self};
      dispatch<AllTypes, S>(ctx, computed_in<S>(self.scalar_type()), [&](auto tag) {
        using T = typename decltype(tag)::type;
        internal::run<S, T, T>(ctx, [](T x) { return x; }, inputs, out, ScalarType::Undefined);
      });
      return out;
    }
  }
  copy_same<S>(ctx, self, out);
  return out;
}

template <class S>
Tensor& clone_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<executorch::aten::MemoryFormat> /*memory_format*/,
    Tensor& out) {
  if (same_dtype_or_fail(ctx, self, out)) {
    convert_copy<S>(ctx, self, out);
  }
  return out;
}

/// dim_order_ops::_clone_dim_order.out and _to_dim_order_copy.out: the export
/// has given out its dim order and dtype.
template <class S>
Tensor& to_dim_order_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    bool /*non_blocking*/,
    std::optional<ArrayRef<int64_t>> /*dim_order*/,
    Tensor& out) {
  return convert_copy<S>(ctx, self, out);
}

} // namespace torch::executor::native
