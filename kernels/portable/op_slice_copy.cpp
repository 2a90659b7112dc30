#include "kernels/portable/op_slice_copy.h"

namespace torch {
namespace executor {
namespace native {

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

} // namespace

bool make_slice(
    KernelRuntimeContext& ctx,
    std::optional<int64_t> start,
    std::optional<int64_t> end,
    int64_t step,
    int32_t size,
    Slice& slice) {
  KERNEL_CHECK(ctx, step > 0 && step <= INT32_MAX, InvalidArgument, false, "step is not positive");
  const int32_t first = clamp_index(start.value_or(0), size);
  const int32_t last = end.has_value() ? clamp_index(*end, size) : size;
  slice.start = first;
  slice.step = static_cast<int32_t>(step);
  slice.count = last <= first ? 0 : (last - first - 1) / slice.step + 1;
  return true;
}

void copy_slice(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int32_t dim,
    const Slice& slice,
    Tensor& out) {
  if (!same_dtype_or_fail(ctx, self, out) || out.numel() == 0) {
    return;
  }
  const Split split = split_at(self.sizes(), static_cast<size_t>(dim));
  const size_t inner = split.inner * static_cast<size_t>(self.element_size());
  const size_t count = static_cast<size_t>(slice.count);
  const char* from =
      static_cast<const char*>(self.const_data_ptr()) + static_cast<size_t>(slice.start) * inner;
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  if (slice.step == 1) {
    block_copy(from, split.size * inner, to, count * inner, count * inner, split.outer);
    return;
  }
  const size_t step = static_cast<size_t>(slice.step) * inner;
  for (size_t i = 0; i < split.outer; ++i) {
    block_copy(from + i * split.size * inner, step, to + i * count * inner, inner, inner, count);
  }
}

} // namespace native
} // namespace executor
} // namespace torch
