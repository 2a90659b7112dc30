#include "kernels/portable/op_cat.h"

namespace torch::executor::native {

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
  CHECK_ARGUMENT(ctx, tensors.size() > 0, "tensors is empty");
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
  CHECK_ARGUMENT(ctx, first->dim() > 0, "Zero-dim tensors cannot be put together");
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
    CHECK_ARGUMENT(ctx, fits, "The tensors' shapes do not fit");
    total += sizes[static_cast<size_t>(index)];
  }
  CHECK_ARGUMENT(ctx, total <= INT32_MAX, "The result is too large");
  out_sizes.sizes[index] = static_cast<SizesType>(total);
  return true;
}

bool stack_sizes(
    KernelRuntimeContext& ctx,
    const ArrayRef<Tensor>& tensors,
    int64_t dim,
    int32_t& index,
    Shape& out_sizes) {
  CHECK_ARGUMENT(ctx, tensors.size() > 0 && tensors.size() <= INT32_MAX, "tensors is empty");
  const Tensor& first = tensors[0];
  CHECK_ARGUMENT(ctx, static_cast<size_t>(first.dim()) < kMaxDims, "The result has too many dims");
  index = normalize_dim(ctx, dim, static_cast<int32_t>(first.dim()) + 1);
  if (index < 0) {
    return false;
  }
  for (const Tensor& tensor : tensors) {
    CHECK_ARGUMENT(ctx, same_sizes(tensor.sizes(), first.sizes()), "The tensors' shapes differ");
  }
  out_sizes = Shape(first.sizes());
  out_sizes.append(0);
  for (size_t i = out_sizes.dims - 1; i > static_cast<size_t>(index); --i) {
    out_sizes.sizes[i] = out_sizes.sizes[i - 1];
  }
  out_sizes.sizes[index] = static_cast<SizesType>(tensors.size());
  return true;
}

} // namespace torch::executor::native
