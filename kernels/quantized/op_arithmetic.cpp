#include "kernels/quantized/op_arithmetic.h"

namespace torch::executor::native {

bool MixedProduct::init(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const Tensor& scales,
    const std::optional<Tensor>& zero_points,
    bool is_transposed,
    Shape& out_sizes) {
  if (!dtype_or_fail(ctx, weight, ScalarType::Char, "weight")) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      input.dim() == 2 && weight.dim() == 2 &&
          input.sizes()[1] == weight.sizes()[is_transposed ? 1 : 0],
      "input and weight do not fit together");
  const auto scale_sizes = scales.sizes();
  const bool has_groups = scale_sizes.size() == 2;
  const SizesType parts = has_groups ? scale_sizes[1] : 1;
  CHECK_ARGUMENT(
      ctx,
      (has_groups || scale_sizes.size() == 1) && scale_sizes[0] == weight.sizes()[0] && parts > 0 &&
          weight.sizes()[1] % parts == 0,
      "weight_scales does not fit weight");
  CHECK_ARGUMENT(
      ctx,
      !zero_points.has_value() || zero_points->numel() == scales.numel(),
      "weight_zero_points does not fit weight_scales");
  rows = static_cast<size_t>(input.sizes()[0]);
  inner = static_cast<size_t>(input.sizes()[1]);
  columns = static_cast<size_t>(weight.sizes()[is_transposed ? 0 : 1]);
  groups = static_cast<size_t>(parts);
  group = static_cast<size_t>(weight.sizes()[1] / parts);
  out_sizes.append(input.sizes()[0]);
  out_sizes.append(static_cast<SizesType>(columns));
  return check_numbers(ctx, scales) &&
      (!zero_points.has_value() || check_numbers(ctx, *zero_points));
}

} // namespace torch::executor::native
