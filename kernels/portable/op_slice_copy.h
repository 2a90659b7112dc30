#pragma once

#include <optional>

#include "kernels/util/shape.h"
#include "kernels/util/strided_copy.h"

namespace torch {
namespace executor {
namespace native {

/// Part of a dim: `count` indices from `start` on, `step` apart.
struct Slice {
  int32_t start;
  int32_t step;
  int32_t count;
};

/// The slice start:end:step of a dim of a size, as Python cuts it. Fails the
/// context (InvalidArgument) and returns false if step is not positive.
bool make_slice(
    KernelRuntimeContext& ctx,
    std::optional<int64_t> start,
    std::optional<int64_t> end,
    int64_t step,
    int32_t size,
    Slice& slice);

/// Writes a slice of a contiguous tensor to a contiguous out of its shape.
void copy_slice(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int32_t dim,
    const Slice& slice,
    Tensor& out);

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
  KERNEL_CHECK(ctx, self.dim() > 0, InvalidArgument, out, "self has no dim to slice");
  const int32_t index = normalize_dim(ctx, dim, self.dim());
  Slice slice;
  if (index < 0 || !check_contiguous<S>(ctx, self, out) ||
      !make_slice(ctx, start, end, step, self.sizes()[index], slice)) {
    return out;
  }
  Shape out_sizes(self.sizes());
  out_sizes.sizes[index] = slice.count;
  if (shape_out<S>(ctx, out, out_sizes)) {
    copy_slice(ctx, self, index, slice, out);
  }
  return out;
}

/// aten::select_copy.int_out
template <class S>
Tensor& select_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    int64_t index,
    Tensor& out) {
  KERNEL_CHECK(ctx, self.dim() > 0, InvalidArgument, out, "self has no dim to select");
  const int32_t axis = normalize_dim(ctx, dim, self.dim());
  if (axis < 0 || !check_contiguous<S>(ctx, self, out)) {
    return out;
  }
  const int64_t size = self.sizes()[axis];
  KERNEL_CHECK(ctx, index >= -size && index < size, InvalidArgument, out, "index is out of range");
  Shape out_sizes;
  for (size_t i = 0; i < self.sizes().size(); ++i) {
    if (static_cast<int32_t>(i) != axis) {
      out_sizes.append(self.sizes()[i]);
    }
  }
  const Slice slice{static_cast<int32_t>(index < 0 ? index + size : index), 1, 1};
  if (shape_out<S>(ctx, out, out_sizes)) {
    copy_slice(ctx, self, axis, slice, out);
  }
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
