#include "kernels/portable/op_convolution.h"

#include "kernels/util/view.h"
#include "kernels/util/window.h"

namespace torch::executor::native {

bool check_convolution(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const Tensor& out,
    ConvolutionShape& shape,
    Shape& out_sizes) {
  const auto& [input, weight, bias, stride, padding, dilation, transposed, output_padding, groups] =
      arguments;
  const size_t dims = input.sizes().size();
  CHECK_ARGUMENT(
      ctx, dims >= 3 && dims <= 5, "input has %zu dims; a convolution takes 3 to 5", dims);
  if (!same_dtype_or_fail(ctx, input, weight) || !same_dtype_or_fail(ctx, input, out)) {
    return false;
  }
  const auto in_sizes = input.sizes();
  const auto weight_sizes = weight.sizes();
  // One dim of a weight has all channels, and the other those of a group.
  CHECK_ARGUMENT(
      ctx,
      weight_sizes.size() == dims && groups >= 1 && groups <= in_sizes[1] && weight_sizes[0] >= 1 &&
          weight_sizes[1] >= 1 && weight_sizes[0] % static_cast<int32_t>(groups) == 0 &&
          in_sizes[1] ==
              (transposed ? weight_sizes[0] : weight_sizes[1] * static_cast<int32_t>(groups)),
      "weight is not [out, in / groups, kernel...], or transposed [in, out / groups, kernel...]");
  shape.batch = in_sizes[0];
  shape.groups = static_cast<int32_t>(groups);
  shape.in_channels = in_sizes[1] / shape.groups;
  shape.out_channels = transposed ? weight_sizes[1] : weight_sizes[0] / shape.groups;
  shape.transposed = transposed;
  const int64_t out_channels = int64_t{shape.groups} * shape.out_channels;
  CHECK_ARGUMENT(
      ctx,
      !bias.has_value() ||
          (bias->scalar_type() == input.scalar_type() && bias->dim() == 1 &&
           bias->numel() == out_channels),
      "bias is not [out] of input's dtype");

  out_sizes.append(in_sizes[0]);
  out_sizes.append(static_cast<int32_t>(out_channels));
  for (size_t dim = 0; dim + 2 < dims; ++dim) {
    Window& axis = shape.axes[5 - dims + dim];
    axis.in = in_sizes[dim + 2];
    axis.kernel = weight_sizes[dim + 2];
    const bool fits = transposed
        ? axis.set_transposed(ctx, stride, padding, dilation, output_padding, dim)
        : axis.set(ctx, stride, padding, dilation, dim, false);
    if (!fits) {
      return false;
    }
    out_sizes.append(axis.out);
  }
  return true;
}

namespace {

void fill_strides(const Tensor& tensor, int32_t (&strides)[5]) {
  const View view(tensor);
  const size_t missing = 5 - view.shape.dims;
  for (size_t i = 0; i < 5; ++i) {
    // The first axes are missing ones.
    strides[i] = i < 2 ? view.strides[i] : i < 2 + missing ? 0 : view.strides[i - missing];
  }
}

} // namespace

ConvolutionStrides
convolution_strides(const Tensor& input, const Tensor& weight, const Tensor& out) {
  ConvolutionStrides strides;
  fill_strides(input, strides.in);
  fill_strides(weight, strides.weight);
  fill_strides(out, strides.out);
  return strides;
}

} // namespace torch::executor::native
