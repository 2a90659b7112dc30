#include "kernels/portable/op_matmul.h"

namespace torch::executor::native {

bool check_matmul(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    const Tensor& b,
    const Tensor& out,
    size_t batch_dims,
    Shape& out_sizes) {
  const auto a_sizes = a.sizes();
  const auto b_sizes = b.sizes();
  const size_t dims = batch_dims + 2;
  CHECK_ARGUMENT(
      ctx,
      a_sizes.size() == dims && b_sizes.size() == dims &&
          (batch_dims == 0 || a_sizes[0] == b_sizes[0]) && a_sizes[dims - 1] == b_sizes[dims - 2],
      "The matrices' shapes do not fit");
  if (!same_dtype_or_fail(ctx, a, b) || !same_dtype_or_fail(ctx, a, out)) {
    return false;
  }
  if (batch_dims == 1) {
    out_sizes.append(a_sizes[0]);
  }
  out_sizes.append(a_sizes[dims - 2]);
  out_sizes.append(b_sizes[dims - 1]);
  return true;
}

} // namespace torch::executor::native
