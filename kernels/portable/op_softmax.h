#pragma once

#include "kernels/portable/softmax.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/// aten::_softmax.out. Float32; `half_to_float` is for the GPU.
template <class S>
Tensor& softmax_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    bool half_to_float,
    Tensor& out) {
  KERNEL_CHECK(ctx, !half_to_float, NotSupported, out, "half_to_float is not supported");
  const int32_t index = normalize_dim(ctx, dim, self.dim());
  if (index < 0 || !same_dtype_or_fail(ctx, self, out) || !check_contiguous<S>(ctx, self, out) ||
      !shape_like<S>(ctx, out, self)) {
    return out;
  }
  const auto sizes = self.sizes();
  const size_t axis = static_cast<size_t>(index);
  size_t inner = 1;
  for (size_t i = axis + 1; i < sizes.size(); ++i) {
    inner *= static_cast<size_t>(sizes[i]);
  }
  dispatch<DtypeList<ScalarType::Float>, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    softmax(
        self.const_data_ptr<T>(),
        out.mutable_data_ptr<T>(),
        static_cast<size_t>(self.numel()),
        sizes.size() == 0 ? 1 : static_cast<size_t>(sizes[axis]),
        inner);
  });
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
