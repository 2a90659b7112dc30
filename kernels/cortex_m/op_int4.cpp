#include "kernels/cortex_m/op_int4.h"

namespace torch::executor::native::cortex_m {

bool check_packed_int4(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    size_t dim,
    const Tensor& packed,
    LayerKind kind,
    const Tensor& out,
    PackedParts& parts) {
  if (!check_int8(ctx, input, out) || !find_packed(ctx, packed, kind, parts)) {
    return false;
  }
  const auto in_sizes = input.sizes();
  CHECK_ARGUMENT(
      ctx,
      dim < in_sizes.size() && in_sizes[dim] == parts.inner,
      "input does not have the features that its layer was packed for");
  return true;
}

} // namespace torch::executor::native::cortex_m
