#include "kernels/portable/op_slice_copy.h"

namespace torch::executor::native {

namespace {

int32_t clamp_index(int64_t index, int32_t size) {
  if (index < 0) {
    index += size;
  }
  if (index < 0) {
    return 0;
  }
  return index > size ? size : static_cast<int32_t>(index);
}

/// The index of a dim of a view that has some; -1 after failing the context.
int32_t dim_of(KernelRuntimeContext& ctx, const View& view, int64_t dim) {
  KERNEL_CHECK(ctx, view.shape.dims > 0, InvalidArgument, -1, "self has no dims");
  return normalize_dim(ctx, dim, static_cast<int32_t>(view.shape.dims));
}

} // namespace

bool slice(
    KernelRuntimeContext& ctx,
    View& view,
    int64_t dim,
    std::optional<int64_t> start,
    std::optional<int64_t> end,
    int64_t step) {
  const int32_t index = dim_of(ctx, view, dim);
  if (index < 0) {
    return false;
  }
  CHECK_ARGUMENT(ctx, step > 0, "step is not positive");
  const int32_t size = view.shape.sizes[index];
  const int32_t first = clamp_index(start.value_or(0), size);
  const int32_t last = end.has_value() ? clamp_index(*end, size) : size;
  const int32_t stride = step > size ? size : static_cast<int32_t>(step);
  const int32_t count = last <= first ? 0 : (last - first - 1) / stride + 1;
  view.slice(static_cast<size_t>(index), first, stride, count);
  return true;
}

bool select(KernelRuntimeContext& ctx, View& view, int64_t dim, int64_t index) {
  const int32_t axis = dim_of(ctx, view, dim);
  if (axis < 0) {
    return false;
  }
  const int32_t size = view.shape.sizes[axis];
  CHECK_ARGUMENT(
      ctx,
      index >= -size && index < size,
      "index %d is out of range for a dim of size %d",
      static_cast<int>(index),
      static_cast<int>(size));
  view.select(static_cast<size_t>(axis), static_cast<int32_t>(index < 0 ? index + size : index));
  return true;
}

bool narrow(KernelRuntimeContext& ctx, View& view, int64_t dim, int64_t start, int64_t length) {
  const int32_t index = dim_of(ctx, view, dim);
  if (index < 0) {
    return false;
  }
  const int32_t size = view.shape.sizes[index];
  CHECK_ARGUMENT(
      ctx,
      start >= -size && start <= size,
      "start %d is out of range for a dim of size %d",
      static_cast<int>(start),
      static_cast<int>(size));
  const int32_t first = static_cast<int32_t>(start < 0 ? start + size : start);
  CHECK_ARGUMENT(
      ctx,
      length >= 0 && length <= size - first,
      "length %d from start %d exceeds a dim of size %d",
      static_cast<int>(length),
      static_cast<int>(first),
      static_cast<int>(size));
  view.slice(static_cast<size_t>(index), first, 1, static_cast<int32_t>(length));
  return true;
}

} // namespace torch::executor::native
