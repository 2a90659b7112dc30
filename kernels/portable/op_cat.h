#pragma once

#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/// The shape of tensors put together along a dim; fails the context and returns
/// false if they do not fit together. One-dim tensors without elements fit
/// anywhere and count for nothing, as in PyTorch.
bool cat_sizes(
    KernelRuntimeContext& ctx,
    const ArrayRef<Tensor>& tensors,
    int64_t dim,
    int32_t& index,
    Shape& out_sizes);

/// Writes the tensors to an out of that shape; contiguous.
void cat(KernelRuntimeContext& ctx, const ArrayRef<Tensor>& tensors, int32_t dim, Tensor& out);

/// aten::cat.out: contiguous tensors of one dtype.
template <class S>
Tensor& cat_out(KernelRuntimeContext& ctx, ArrayRef<Tensor> tensors, int64_t dim, Tensor& out) {
  for (const Tensor& tensor : tensors) {
    if (!check_contiguous<S>(ctx, tensor)) {
      return out;
    }
  }
  Shape out_sizes;
  int32_t index = 0;
  if (check_contiguous<S>(ctx, out) && cat_sizes(ctx, tensors, dim, index, out_sizes) &&
      shape_out<S>(ctx, out, out_sizes)) {
    cat(ctx, tensors, index, out);
  }
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
