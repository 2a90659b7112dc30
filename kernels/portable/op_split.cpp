#include "kernels/portable/op_split.h"

namespace torch::executor::native {

namespace {

int32_t dim_of(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim) {
  KERNEL_CHECK(ctx, self.dim() > 0, InvalidArgument, -1, "self has no dims");
  return normalize_dim(ctx, dim, static_cast<int32_t>(self.dim()));
}

/// `index` if the list has as many tensors as there are parts.
int32_t check_count(KernelRuntimeContext& ctx, int32_t index, size_t parts, size_t count) {
  KERNEL_CHECK(
      ctx,
      parts == count,
      InvalidArgument,
      -1,
      "out has %zu tensors, self %zu parts",
      count,
      parts);
  return index;
}

} // namespace

int32_t split_dim(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t split_size,
    int64_t dim,
    size_t count) {
  const int32_t index = dim_of(ctx, self, dim);
  if (index < 0) {
    return index;
  }
  const int32_t size = self.sizes()[static_cast<size_t>(index)];
  KERNEL_CHECK(
      ctx,
      split_size > 0 || (split_size == 0 && size == 0),
      InvalidArgument,
      -1,
      "split_size %d is not positive",
      static_cast<int>(split_size));
  // A dim without indices is one part.
  const int32_t each = split_size < size ? static_cast<int32_t>(split_size) : size;
  return check_count(ctx, index, size == 0 ? 1 : static_cast<size_t>((size - 1) / each + 1), count);
}

int32_t split_sizes_dim(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& sizes,
    int64_t dim,
    size_t count) {
  const int32_t index = dim_of(ctx, self, dim);
  if (index < 0) {
    return index;
  }
  int64_t left = self.sizes()[static_cast<size_t>(index)];
  for (const int64_t size : sizes) {
    KERNEL_CHECK(
        ctx, size >= 0 && size <= left, InvalidArgument, -1, "split_sizes does not fit self");
    left -= size;
  }
  KERNEL_CHECK(ctx, left == 0, InvalidArgument, -1, "split_sizes does not fill self");
  return check_count(ctx, index, sizes.size(), count);
}

int32_t unbind_dim(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, size_t count) {
  const int32_t index = dim_of(ctx, self, dim);
  return index < 0
      ? index
      : check_count(
            ctx, index, static_cast<size_t>(self.sizes()[static_cast<size_t>(index)]), count);
}

} // namespace torch::executor::native
