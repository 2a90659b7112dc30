#pragma once

#include <optional>

#include "kernels/portable/op_copy.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/indices.h"
#include "kernels/util/scalars.h"
#include "kernels/util/view.h"

/**
 * Operators that read or write elements at the indices that an index tensor, Long or Int, contains
 * along one dim. An index out of range fails the context (InvalidArgument); elements that have been
 * written by then stay.
 */
namespace torch::executor::native {

/// The shape of self with `count` indices of a dim.
bool index_select_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    int32_t& axis,
    Shape& out_sizes);

/// Writes the parts of a view that are at the indices of a dim to those of
/// another one in order; the index tensor is contiguous.
void take(
    KernelRuntimeContext& ctx,
    const View& from,
    const View& to,
    size_t dim,
    const Tensor& index);

/// The shape of rows of a matrix.
bool embedding_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& weight,
    const Tensor& indices,
    Shape& out_sizes);

/// Writes the rows of a contiguous matrix that are at the indices.
void embedding(KernelRuntimeContext& ctx, const Tensor& weight, const Tensor& indices, Tensor& out);

/// Writes the elements of a tensor at the indices to out, which has index's shape.
void gather(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    Tensor& out);

/// Writes elements of another tensor, or always the same one, to the indices.
void scatter(KernelRuntimeContext& ctx, IndexWalk& walk, const void* from, Tensor& out);

/// aten::index_select.out
template <class S>
Tensor& index_select_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    Tensor& out) {
  Shape out_sizes;
  int32_t axis = 0;
  if (index_select_sizes(ctx, self, dim, index, axis, out_sizes) &&
      same_dtype_or_fail(ctx, self, out) && shape_out<S>(ctx, out, out_sizes)) {
    View from(self);
    View to(out);
    if (from.shape.dims == 0) {
      from.append(1, 0);
      to.append(1, 0);
    }
    take(ctx, from, to, static_cast<size_t>(axis), index);
  }
  return out;
}

/// aten::embedding.out: what the other parameters say concerns gradients.
template <class S>
Tensor& embedding_out(
    KernelRuntimeContext& ctx,
    const Tensor& weight,
    const Tensor& indices,
    int64_t /*padding_idx*/,
    bool /*scale_grad_by_freq*/,
    bool /*sparse*/,
    Tensor& out) {
  Shape out_sizes;
  if (check_contiguous<S>(ctx, weight, indices, out) &&
      embedding_sizes(ctx, weight, indices, out_sizes) && same_dtype_or_fail(ctx, weight, out) &&
      shape_out<S>(ctx, out, out_sizes)) {
    embedding(ctx, weight, indices, out);
  }
  return out;
}

/// aten::gather.out
template <class S>
Tensor& gather_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    bool /*sparse_grad*/,
    Tensor& out) {
  if (same_dtype_or_fail(ctx, self, out) && shape_out<S>(ctx, out, index.sizes())) {
    gather(ctx, self, dim, index, out);
  }
  return out;
}

/// Writes self to out, and prepares a walk over it.
template <class S>
bool start_scatter(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Tensor* src,
    Tensor& out,
    IndexWalk& walk) {
  if (!same_dtype_or_fail(ctx, self, out) ||
      (src != nullptr && !same_dtype_or_fail(ctx, *src, out)) ||
      !shape_out<S>(ctx, out, self.sizes()) || !walk.init(ctx, out, dim, index, src)) {
    return false;
  }
  copy_same<S>(ctx, self, out);
  return true;
}

/// aten::scatter.src_out
template <class S>
Tensor& scatter_src_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Tensor& src,
    Tensor& out) {
  IndexWalk walk;
  if (start_scatter<S>(ctx, self, dim, index, &src, out, walk)) {
    scatter(ctx, walk, src.const_data_ptr(), out);
  }
  return out;
}

/// aten::scatter.value_out
template <class S>
Tensor& scatter_value_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Scalar& value,
    Tensor& out) {
  IndexWalk walk;
  if (start_scatter<S>(ctx, self, dim, index, nullptr, out, walk)) {
    dispatch<StoredTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T element = convert<T>(scalar_to<ComputeType<T>>(value));
      scatter(ctx, walk, &element, out);
    });
  }
  return out;
}

/// aten::scatter_add.out
template <class S>
Tensor& scatter_add_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Tensor& src,
    Tensor& out) {
  IndexWalk walk;
  if (start_scatter<S>(ctx, self, dim, index, &src, out, walk)) {
    dispatch<StoredTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* const to = out.mutable_data_ptr<T>();
      const T* const from = src.const_data_ptr<T>();
      walk.run(ctx, [&](int32_t place, int32_t other) {
        to[place] = wrapping_sum(to[place], from[other]);
      });
    });
  }
  return out;
}

/// The number of indices that repeats makes; -1 after failing the context.
int32_t repeated_size(
    KernelRuntimeContext& ctx,
    const Tensor& repeats,
    const std::optional<int64_t>& output_size);

/// Writes 0 as often as the first element of repeats says, then 1, and so on.
void repeat_interleave(KernelRuntimeContext& ctx, const Tensor& repeats, Tensor& out);

/// aten::repeat_interleave.Tensor_out
template <class S>
Tensor& repeat_interleave_out(
    KernelRuntimeContext& ctx,
    const Tensor& repeats,
    std::optional<int64_t> output_size,
    Tensor& out) {
  const SizesType size = repeated_size(ctx, repeats, output_size);
  if (size >= 0 && same_dtype_or_fail(ctx, repeats, out) &&
      shape_out<S>(ctx, out, ArrayRef<SizesType>(&size, 1))) {
    repeat_interleave(ctx, repeats, out);
  }
  return out;
}

} // namespace torch::executor::native
