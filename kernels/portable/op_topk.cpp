#include "kernels/portable/op_topk.h"

namespace torch::executor::native {

bool topk_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t k,
    int64_t dim,
    int32_t& axis,
    Shape& out_sizes) {
  axis = normalize_dim(ctx, dim, static_cast<int32_t>(self.dim()));
  if (axis < 0) {
    return false;
  }
  out_sizes = Shape(self.sizes());
  const SizesType size = out_sizes.dims == 0 ? 1 : out_sizes.sizes[axis];
  CHECK_ARGUMENT(
      ctx,
      k >= 0 && k <= size,
      "k is %d, self has %d elements in the dim",
      static_cast<int>(k),
      static_cast<int>(size));
  if (out_sizes.dims > 0) {
    out_sizes.sizes[axis] = static_cast<SizesType>(k);
  }
  return true;
}

} // namespace torch::executor::native
