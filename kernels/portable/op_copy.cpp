#include "kernels/portable/op_copy.h"

#include <cstring>

namespace torch {
namespace executor {
namespace native {

void copy_elements(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if (!same_dtype_or_fail(ctx, self, out) || !same_numel_or_fail(ctx, self, out)) {
    return;
  }
  const void* const from = self.const_data_ptr();
  void* const to = out.mutable_data_ptr();
  if (from != to && out.numel() > 0) {
    std::memmove(to, from, out.nbytes());
  }
}

void copy_in_order(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if (!same_dtype_or_fail(ctx, self, out) || !same_numel_or_fail(ctx, self, out) ||
      !contiguous_or_fail(ctx, out)) {
    return;
  }
  const View from(self);
  View to(self);
  to.data = static_cast<char*>(out.mutable_data_ptr());
  int32_t stride = 1;
  for (size_t i = to.shape.dims; i-- > 0;) {
    to.strides[i] = stride;
    stride *= to.shape.sizes[i];
  }
  copy_view(from, to);
}

bool permute(KernelRuntimeContext& ctx, View& view, const ArrayRef<int64_t>& dims) {
  const View from = view;
  KERNEL_CHECK(
      ctx,
      dims.size() == from.shape.dims,
      InvalidArgument,
      false,
      "dims has %zu elements, self %zu dims",
      dims.size(),
      from.shape.dims);
  uint32_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int32_t dim = normalize_dim(ctx, dims[i], static_cast<int32_t>(dims.size()));
    if (dim < 0) {
      return false;
    }
    KERNEL_CHECK(
        ctx,
        ((seen >> dim) & 1u) == 0,
        InvalidArgument,
        false,
        "dims has %d twice",
        static_cast<int>(dim));
    seen |= 1u << dim;
    view.shape.sizes[i] = from.shape.sizes[dim];
    view.strides[i] = from.strides[dim];
  }
  return true;
}

bool expand(KernelRuntimeContext& ctx, View& view, const ArrayRef<int64_t>& size) {
  const View from = view;
  KERNEL_CHECK(
      ctx,
      size.size() >= from.shape.dims && size.size() <= kMaxDims,
      InvalidArgument,
      false,
      "size has %zu elements, self %zu dims",
      size.size(),
      from.shape.dims);
  const size_t added = size.size() - from.shape.dims;
  view.shape.dims = 0;
  for (size_t i = 0; i < size.size(); ++i) {
    const SizesType own = i < added ? 1 : from.shape.sizes[i - added];
    const int64_t wanted = size[i] == -1 && i >= added ? own : size[i];
    KERNEL_CHECK(
        ctx,
        wanted == own || (own == 1 && wanted >= 0 && wanted <= INT32_MAX),
        InvalidArgument,
        false,
        "A dim of size %d cannot become one of %d",
        static_cast<int>(own),
        static_cast<int>(wanted));
    view.append(static_cast<SizesType>(wanted), own == 1 ? 0 : from.strides[i - added]);
  }
  return true;
}

} // namespace native
} // namespace executor
} // namespace torch
