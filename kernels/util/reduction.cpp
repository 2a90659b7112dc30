#include "kernels/util/reduction.h"

namespace torch::executor::native {

bool Reduction::init(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<ArrayRef<int64_t>>& dims,
    bool keepdim,
    Shape& out_sizes) {
  const auto sizes = self.sizes();
  const bool all = !dims.has_value() || dims->size() == 0;
  gone_ = all ? ~uint32_t{0} : 0;
  keepdim_ = keepdim;
  if (!all) {
    for (const int64_t dim : *dims) {
      const int32_t index = normalize_dim(ctx, dim, self.dim());
      if (index < 0) {
        return false;
      }
      CHECK_ARGUMENT(
          ctx, ((gone_ >> index) & 1u) == 0, "dim has %d twice", static_cast<int>(index));
      gone_ |= 1u << index;
    }
  }
  count_ = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (((gone_ >> i) & 1u) == 0) {
      out_sizes.append(sizes[i]);
      continue;
    }
    count_ *= static_cast<size_t>(sizes[i]);
    if (keepdim) {
      out_sizes.append(1);
    }
  }
  return true;
}

bool Reduction::check_not_empty(KernelRuntimeContext& ctx) const {
  CHECK_ARGUMENT(ctx, count_ > 0, "self has no elements in the dims to reduce");
  return true;
}

void Reduction::bind(const Tensor& self, const Tensor& out) {
  const auto sizes = self.sizes();
  int32_t strides[kMaxDims];
  int32_t out_strides[kMaxDims];
  strides_of(self, strides);
  strides_of(out, out_strides);
  Shape kept;
  Shape reduced;
  int32_t kept_strides[2][kMaxDims];
  int32_t reduced_strides[kMaxDims];
  size_t out_dim = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (((gone_ >> i) & 1u) != 0) {
      reduced_strides[reduced.dims] = strides[i];
      reduced.append(sizes[i]);
      out_dim += keepdim_ ? 1 : 0;
    } else {
      kept_strides[0][kept.dims] = strides[i];
      kept_strides[1][kept.dims] = out_strides[out_dim++];
      kept.append(sizes[i]);
    }
  }
  const int32_t* const both[] = {kept_strides[0], kept_strides[1]};
  kept_.init(kept.sizes, both, 2, kept.dims);
  reduced_.init(reduced.sizes, reduced_strides, reduced.dims);
}

} // namespace torch::executor::native
