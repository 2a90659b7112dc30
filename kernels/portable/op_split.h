#pragma once

#include <executorch/runtime/core/span.h>

#include "kernels/util/view.h"

/**
 * Operators that cut a tensor into a list of tensors. The export has given the
 * list its length; another one fails the context (InvalidArgument).
 */
namespace torch::executor::native {

using executorch::runtime::Span;

/// Returns the dim to split into `count` parts of `split_size` indices, the last with the rest; -1
/// after failing the context if it does not match.
int32_t split_dim(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t split_size,
    int64_t dim,
    size_t count);

/// The dim to cut into `count` parts of the given sizes, which fill it; -1 after
/// failing the context if they do not.
int32_t split_sizes_dim(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& sizes,
    int64_t dim,
    size_t count);

/// The dim to take `count` indices apart; -1 after failing the context if it has
/// another number of them.
int32_t unbind_dim(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, size_t count);

/// aten::split_copy.Tensor_out
template <class S>
void split_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t split_size,
    int64_t dim,
    Span<Tensor> out) {
  const int32_t index = split_dim(ctx, self, split_size, dim, out.size());
  if (index < 0) {
    return;
  }
  const int32_t size = self.sizes()[static_cast<size_t>(index)];
  int32_t start = 0;
  for (Tensor& to : out) {
    const int32_t left = size - start;
    const int32_t count = split_size < left ? static_cast<int32_t>(split_size) : left;
    View part(self);
    part.slice(static_cast<size_t>(index), start, 1, count);
    write_view<S>(ctx, self, part, to);
    start += count;
  }
}

/// aten::split_with_sizes_copy.out
template <class S>
void split_with_sizes_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> split_sizes,
    int64_t dim,
    Span<Tensor> out) {
  const int32_t index = split_sizes_dim(ctx, self, split_sizes, dim, out.size());
  if (index < 0) {
    return;
  }
  int32_t start = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const int32_t count = static_cast<int32_t>(split_sizes[i]);
    View part(self);
    part.slice(static_cast<size_t>(index), start, 1, count);
    write_view<S>(ctx, self, part, out[i]);
    start += count;
  }
}

/// aten::unbind_copy.int_out
template <class S>
void unbind_copy_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, Span<Tensor> out) {
  const int32_t index = unbind_dim(ctx, self, dim, out.size());
  if (index < 0) {
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    View part(self);
    part.select(static_cast<size_t>(index), static_cast<int32_t>(i));
    write_view<S>(ctx, self, part, out[i]);
  }
}

} // namespace torch::executor::native
