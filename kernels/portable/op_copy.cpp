#include "kernels/portable/op_copy.h"

#include <cstring>

namespace torch::executor::native {

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

bool expand(KernelRuntimeContext& ctx, View& view, const ArrayRef<int64_t>& size) {
  Shape sizes;
  for (size_t i = 0; i < size.size() && i < kMaxDims; ++i) {
    // Seen from the last dim, where the view's own dims are.
    const size_t from_last = size.size() - i;
    const bool keeps = size[i] == -1 && from_last <= view.shape.dims;
    CHECK_ARGUMENT(
        ctx,
        keeps || (size[i] >= 0 && size[i] <= INT32_MAX),
        "size has a negative element, or one too large");
    sizes.append(
        keeps ? view.shape.sizes[view.shape.dims - from_last] : static_cast<SizesType>(size[i]));
  }
  CHECK_ARGUMENT(ctx, size.size() <= kMaxDims, "size has too many elements");
  return broadcast_view(ctx, view, sizes);
}

} // namespace torch::executor::native
