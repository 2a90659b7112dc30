#include "kernels/portable/op_norm.h"

namespace torch::executor::native::internal {

bool check_statistic(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& statistic,
    size_t count) {
  CHECK_ARGUMENT(
      ctx,
      static_cast<size_t>(statistic.numel()) == count,
      "A weight, bias or statistic does not have %zu elements",
      count);
  if (is_reduced_dtype(self.scalar_type()) && statistic.scalar_type() == ScalarType::Float) {
    return true;
  }
  return same_dtype_or_fail(ctx, self, statistic);
}

bool check_parameters(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    size_t count) {
  return (!weight.has_value() || check_statistic(ctx, self, *weight, count)) &&
      (!bias.has_value() || check_statistic(ctx, self, *bias, count)) &&
      (!weight.has_value() || !bias.has_value() || same_dtype_or_fail(ctx, *weight, *bias));
}

} // namespace torch::executor::native::internal
