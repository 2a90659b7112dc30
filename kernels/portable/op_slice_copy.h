#pragma once

#include <optional>

#include "kernels/portable/op_copy.h"
#include "kernels/util/view.h"

/**
 * Operators that take a slice of a tensor along a dim, or replace it. Starts and ends of slices are
 * clamped to the dim as in Python; the range of select and narrow must exist.
 */
namespace torch::executor::native {

/// Cuts a view to start:end:step of a dim. Fails the context (InvalidArgument)
/// and returns false if there is no such dim or step is not positive.
bool slice(
    KernelRuntimeContext& ctx,
    View& view,
    int64_t dim,
    std::optional<int64_t> start,
    std::optional<int64_t> end,
    int64_t step);

/// Reduces a view to one index of a dim, and removes the dim. Fails the context (InvalidArgument)
/// and returns false if there is none.
bool select(KernelRuntimeContext& ctx, View& view, int64_t dim, int64_t index);

/// Cuts a view to `length` indices of a dim, `start` the first. Fails the
/// context (InvalidArgument) and returns false if they are not there.
bool narrow(KernelRuntimeContext& ctx, View& view, int64_t dim, int64_t start, int64_t length);

/// Writes a slice of self, a view along a dim that exists, to out; fails the context as
/// write_view() does.
template <class S>
Tensor& write_slice(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const View& view,
    int64_t dim,
    int64_t step,
    Tensor& out) {
  if (!same_dtype_or_fail(ctx, self, out) || !shape_out<S>(ctx, out, view.shape)) {
    return out;
  }
  if (step != 1 || (S::has(Variant::DimOrder) && !same_dim_order(self, out))) {
    copy_view(view, View(out));
    return out;
  }
  const size_t axis = static_cast<size_t>(dim < 0 ? dim + self.dim() : dim);
  const Split split = split_tensor<S>(out, axis);
  const int32_t inner = static_cast<int32_t>(split.inner) * view.element_size;
  const int32_t bytes = view.shape.sizes[axis] * inner;
  copy_dense_rows(
      view.data,
      self.sizes()[axis] * inner,
      static_cast<char*>(out.mutable_data_ptr()),
      bytes,
      static_cast<size_t>(bytes),
      split.outer);
  return out;
}

/// aten::slice_copy.Tensor_out
template <class S>
Tensor& slice_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    std::optional<int64_t> start,
    std::optional<int64_t> end,
    int64_t step,
    Tensor& out) {
  View view(self);
  return slice(ctx, view, dim, start, end, step) ? write_slice<S>(ctx, self, view, dim, step, out)
                                                 : out;
}

/// aten::select_copy.int_out
template <class S>
Tensor& select_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    int64_t index,
    Tensor& out) {
  View view(self);
  return select(ctx, view, dim, index) ? write_view<S>(ctx, self, view, out) : out;
}

/// aten::narrow_copy.out
template <class S>
Tensor& narrow_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    int64_t start,
    int64_t length,
    Tensor& out) {
  View view(self);
  return narrow(ctx, view, dim, start, length) ? write_slice<S>(ctx, self, view, dim, 1, out) : out;
}

/// Copies self to out, and src over the part of it that `cut` selects from a view of out.
template <class S, class Cut>
Tensor& scatter_view(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& src,
    Tensor& out,
    Cut&& cut) {
  if (!same_dtype_or_fail(ctx, src, out) || !same_dtype_or_fail(ctx, self, out) ||
      !shape_out<S>(ctx, out, self.sizes())) {
    return out;
  }
  View part(out);
  if (cut(part)) {
    View from(src);
    KERNEL_CHECK(
        ctx,
        same_sizes(from.shape, part.shape),
        InvalidArgument,
        out,
        "src does not have the shape of the part that it replaces");
    copy_same<S>(ctx, self, out);
    copy_view(from, part);
  }
  return out;
}

/// aten::slice_scatter.out
template <class S>
Tensor& slice_scatter_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& src,
    int64_t dim,
    std::optional<int64_t> start,
    std::optional<int64_t> end,
    int64_t step,
    Tensor& out) {
  return scatter_view<S>(
      ctx, self, src, out, [&](View& part) { return slice(ctx, part, dim, start, end, step); });
}

/// aten::select_scatter.out
template <class S>
Tensor& select_scatter_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& src,
    int64_t dim,
    int64_t index,
    Tensor& out) {
  return scatter_view<S>(
      ctx, self, src, out, [&](View& part) { return select(ctx, part, dim, index); });
}

} // namespace torch::executor::native
