#include "kernels/portable/op_norm.h"

namespace torch {
namespace executor {
namespace native {
namespace internal {

bool check_statistic(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& statistic,
    size_t count) {
  KERNEL_CHECK(
      ctx,
      static_cast<size_t>(statistic.numel()) == count,
      InvalidArgument,
      false,
      "A weight, bias or statistic does not have %zu elements",
      count);
  return same_dtype_or_fail(ctx, self, statistic);
}

bool check_parameter(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& parameter,
    size_t count) {
  return !parameter.has_value() || check_statistic(ctx, self, *parameter, count);
}

} // namespace internal
} // namespace native
} // namespace executor
} // namespace torch
