#include "kernels/portable/op_convolution.h"

#include "kernels/util/window.h"

namespace torch {
namespace executor {
namespace native {

bool check_convolution(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    const ArrayRef<int64_t>& stride,
    const ArrayRef<int64_t>& padding,
    const ArrayRef<int64_t>& dilation,
    bool transposed,
    int64_t groups,
    const Tensor& out,
    ConvolutionShape& shape,
    Shape& out_sizes) {
  KERNEL_CHECK(ctx, !transposed, NotSupported, false, "Transposed convolution is not supported");
  const size_t dims = input.sizes().size();
  KERNEL_CHECK(
      ctx,
      dims == 3 || dims == 4,
      NotSupported,
      false,
      "input has %zu dims; the convolution takes 3 or 4",
      dims);
  if (!same_dtype_or_fail(ctx, input, weight) || !same_dtype_or_fail(ctx, input, out)) {
    return false;
  }
  const auto in_sizes = input.sizes();
  const auto weight_sizes = weight.sizes();
  KERNEL_CHECK(
      ctx,
      weight_sizes.size() == dims && groups >= 1 && in_sizes[1] >= 1 && groups <= in_sizes[1] &&
          in_sizes[1] == weight_sizes[1] * static_cast<int32_t>(groups) && weight_sizes[0] >= 1 &&
          weight_sizes[0] % static_cast<int32_t>(groups) == 0,
      InvalidArgument,
      false,
      "weight is not [out, in / groups, kernel...]");
  KERNEL_CHECK(
      ctx,
      !bias.has_value() ||
          (bias->scalar_type() == input.scalar_type() && bias->dim() == 1 &&
           bias->numel() == weight_sizes[0]),
      InvalidArgument,
      false,
      "bias is not [out] of input's dtype");

  shape.batch = in_sizes[0];
  shape.groups = static_cast<int32_t>(groups);
  shape.in_channels = weight_sizes[1];
  shape.out_channels = weight_sizes[0] / shape.groups;
  const bool flat = dims == 3;
  out_sizes.append(in_sizes[0]);
  out_sizes.append(weight_sizes[0]);
  Window height;
  Window width;
  if (flat) {
    height.in = 1;
    height.kernel = 1;
  } else {
    height.in = in_sizes[2];
    height.kernel = weight_sizes[2];
  }
  width.in = in_sizes[dims - 1];
  width.kernel = weight_sizes[dims - 1];
  if ((!flat && !height.set(ctx, stride, padding, dilation, /*dim=*/0, false)) ||
      !width.set(ctx, stride, padding, dilation, flat ? 0 : 1, false)) {
    return false;
  }
  shape.in_height = height.in;
  shape.in_width = width.in;
  shape.out_height = height.out;
  shape.out_width = width.out;
  shape.kernel_height = height.kernel;
  shape.kernel_width = width.kernel;
  shape.stride_height = height.stride;
  shape.stride_width = width.stride;
  shape.padding_height = height.padding;
  shape.padding_width = width.padding;
  shape.dilation_height = height.dilation;
  shape.dilation_width = width.dilation;
  if (!flat) {
    out_sizes.append(height.out);
  }
  out_sizes.append(width.out);
  return true;
}

} // namespace native
} // namespace executor
} // namespace torch
