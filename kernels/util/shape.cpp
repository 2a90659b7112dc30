#include "kernels/util/shape.h"

namespace torch::executor::native {

Split split_at(ArrayRef<SizesType> sizes, size_t dim) {
  Split split{1, 1, 1};
  size_t i = 0;
  for (; i < sizes.size() && i < dim; ++i) {
    split.outer *= static_cast<size_t>(sizes[i]);
  }
  if (i < sizes.size()) {
    split.size = static_cast<size_t>(sizes[i]);
    while (++i < sizes.size()) {
      split.inner *= static_cast<size_t>(sizes[i]);
    }
  }
  return split;
}

Split split_in_memory(const Tensor& tensor, size_t dim) {
  Shape sizes;
  size_t place = 0;
  for (const auto from : tensor.dim_order()) {
    if (from == dim) {
      place = sizes.dims;
    }
    sizes.append(tensor.sizes()[from]);
  }
  return split_at(sizes, place);
}

bool infer_view(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& size,
    Shape& out_sizes) {
  CHECK_ARGUMENT(ctx, size.size() <= kMaxDims, "size has more than %zu elements", kMaxDims);
  const int32_t numel = static_cast<int32_t>(self.numel());
  int64_t known = 1;
  size_t inferred = kMaxDims;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == -1 && inferred == kMaxDims) {
      inferred = i;
      out_sizes.append(0);
      continue;
    }
    CHECK_ARGUMENT(ctx, size[i] >= 0 && size[i] <= INT32_MAX, "size has a negative element");
    out_sizes.append(static_cast<SizesType>(size[i]));
    known *= size[i];
    CHECK_ARGUMENT(ctx, known <= INT32_MAX, "size has more elements than self");
  }
  if (inferred < kMaxDims) {
    CHECK_ARGUMENT(
        ctx,
        known > 0 && numel % static_cast<int32_t>(known) == 0,
        "self's elements do not fill size");
    out_sizes.sizes[inferred] = numel / static_cast<int32_t>(known);
    known = numel;
  }
  CHECK_ARGUMENT(ctx, known == numel, "size does not hold as many elements as self");
  return true;
}

} // namespace torch::executor::native
