#include "kernels/portable/op_copy.h"

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

bool permutation(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& dims,
    int32_t* order,
    Shape& out_sizes) {
  const auto sizes = self.sizes();
  KERNEL_CHECK(
      ctx,
      dims.size() == sizes.size(),
      InvalidArgument,
      false,
      "dims has %zu elements, self %zu dims",
      dims.size(),
      sizes.size());
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
    order[i] = dim;
    out_sizes.append(sizes[static_cast<size_t>(dim)]);
  }
  return true;
}

void permute(KernelRuntimeContext& ctx, const Tensor& self, const int32_t* dims, Tensor& out) {
  if (!same_dtype_or_fail(ctx, self, out)) {
    return;
  }
  int32_t strides[kMaxDims];
  int32_t permuted[kMaxDims];
  strides_of(self, strides);
  const auto out_sizes = out.sizes();
  for (size_t i = 0; i < out_sizes.size(); ++i) {
    permuted[i] = strides[dims[i]];
  }
  strided_copy(
      self.const_data_ptr(),
      out.mutable_data_ptr(),
      out_sizes.data(),
      permuted,
      out_sizes.size(),
      static_cast<size_t>(out.element_size()));
}

} // namespace native
} // namespace executor
} // namespace torch
