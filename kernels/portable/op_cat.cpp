#include "kernels/portable/op_cat.h"

#include "kernels/util/strided_copy.h"

namespace torch {
namespace executor {
namespace native {

namespace {

bool is_skipped(const Tensor& tensor) {
  return tensor.dim() == 1 && tensor.numel() == 0;
}

} // namespace

bool cat_sizes(
    KernelRuntimeContext& ctx,
    const ArrayRef<Tensor>& tensors,
    int64_t dim,
    int32_t& index,
    Shape& out_sizes) {
  KERNEL_CHECK(ctx, tensors.size() > 0, InvalidArgument, false, "tensors is empty");
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    if (!is_skipped(tensor)) {
      first = &tensor;
      break;
    }
  }
  if (first == nullptr) {
    first = tensors.data();
  }
  KERNEL_CHECK(
      ctx, first->dim() > 0, InvalidArgument, false, "Zero-dim tensors cannot be put together");
  index = normalize_dim(ctx, dim, first->dim());
  if (index < 0) {
    return false;
  }
  out_sizes = Shape(first->sizes());
  int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) {
      continue;
    }
    const auto sizes = tensor.sizes();
    bool fits = sizes.size() == out_sizes.dims;
    for (size_t i = 0; fits && i < sizes.size(); ++i) {
      fits = static_cast<int32_t>(i) == index || sizes[i] == out_sizes.sizes[i];
    }
    KERNEL_CHECK(ctx, fits, InvalidArgument, false, "The tensors' shapes do not fit");
    total += sizes[static_cast<size_t>(index)];
  }
  KERNEL_CHECK(ctx, total <= INT32_MAX, InvalidArgument, false, "The result is too large");
  out_sizes.sizes[index] = static_cast<SizesType>(total);
  return true;
}

void cat(KernelRuntimeContext& ctx, const ArrayRef<Tensor>& tensors, int32_t dim, Tensor& out) {
  const Split whole = split_at(out.sizes(), static_cast<size_t>(dim));
  const size_t inner = whole.inner * static_cast<size_t>(out.element_size());
  const size_t to_step = whole.size * inner;
  char* to = static_cast<char*>(out.mutable_data_ptr());
  for (const Tensor& tensor : tensors) {
    if (!same_dtype_or_fail(ctx, tensor, out)) {
      return;
    }
    if (tensor.numel() == 0) {
      continue;
    }
    const size_t bytes = static_cast<size_t>(tensor.sizes()[static_cast<size_t>(dim)]) * inner;
    block_copy(tensor.const_data_ptr(), bytes, to, to_step, bytes, whole.outer);
    to += bytes;
  }
}

} // namespace native
} // namespace executor
} // namespace torch
