#include "kernels/util/reduction.h"

namespace torch {
namespace executor {
namespace native {

bool Reduction::init(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<ArrayRef<int64_t>>& dims,
    bool keepdim,
    Shape& out_sizes) {
  const auto sizes = self.sizes();
  const bool all = !dims.has_value() || dims->size() == 0;
  uint32_t gone = 0;
  if (!all) {
    for (const int64_t dim : *dims) {
      const int32_t index = normalize_dim(ctx, dim, self.dim());
      if (index < 0) {
        return false;
      }
      KERNEL_CHECK(
          ctx,
          ((gone >> index) & 1u) == 0,
          InvalidArgument,
          false,
          "dim has %d twice",
          static_cast<int>(index));
      gone |= 1u << index;
    }
  }
  int32_t strides[kMaxDims];
  strides_of(self, strides);
  Shape kept;
  Shape reduced;
  int32_t kept_strides[kMaxDims];
  int32_t reduced_strides[kMaxDims];
  count_ = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (all || ((gone >> i) & 1u) != 0) {
      reduced_strides[reduced.dims] = strides[i];
      reduced.append(sizes[i]);
      count_ *= static_cast<size_t>(sizes[i]);
      if (keepdim) {
        out_sizes.append(1);
      }
    } else {
      kept_strides[kept.dims] = strides[i];
      kept.append(sizes[i]);
      out_sizes.append(sizes[i]);
    }
  }
  kept_.init(kept.sizes, kept_strides, kept.dims);
  reduced_.init(reduced.sizes, reduced_strides, reduced.dims);
  return true;
}

} // namespace native
} // namespace executor
} // namespace torch
