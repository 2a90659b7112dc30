#include "kernels/portable/op_resample.h"

#include "kernels/soft_double.h"

namespace torch::executor::native {

namespace {

constexpr int32_t kLargest = 0x7fffff;

bool set_axis(
    KernelRuntimeContext& ctx,
    int32_t in,
    int32_t planned_out,
    const std::optional<ArrayRef<int64_t>>& output_size,
    size_t dim,
    std::optional<double> factor,
    bool align_corners,
    ResampledAxis& axis) {
  CHECK_ARGUMENT(
      ctx,
      output_size.has_value() ? output_size->size() == 2 : factor.has_value(),
      "There is neither an output_size of two elements nor two scale_factors");
  const float scale = factor.has_value() ? float_of(*factor) : 0.0f;
  int64_t size = 0;
  if (output_size.has_value()) {
    size = (*output_size)[dim];
  } else if (scale > 0.0f && scale < 1e6f && in < kLargest) {
    // PyTorch multiplies in double precision and rounds down. The export has decided the cases that
    // floats cannot tell.
    const float product = static_cast<float>(in) * scale;
    const float error = product * 1e-6f;
    size = static_cast<int64_t>(product + error);
    if (size != planned_out && static_cast<int64_t>(product - error) == planned_out) {
      size = planned_out;
    }
  }
  CHECK_ARGUMENT(
      ctx,
      size >= 1 && size <= kLargest && in >= 1 && in <= kLargest,
      "A size of input or result is 0 or out of range");
  axis.in = in;
  axis.out = static_cast<int32_t>(size);
  axis.align_corners = align_corners;
  if (align_corners) {
    axis.scale =
        axis.out > 1 ? static_cast<float>(in - 1) / static_cast<float>(axis.out - 1) : 0.0f;
  } else if (scale > 0.0f) {
    axis.scale = 1.0f / scale;
  } else {
    axis.scale = static_cast<float>(in) / static_cast<float>(axis.out);
  }
  // Positions in the input are to have 32 bits; those of a factor that the sizes do not follow from
  // may be anywhere.
  CHECK_ARGUMENT(
      ctx,
      axis.scale * (static_cast<float>(axis.out) + 0.5f) < 1e9f,
      "A scale factor is too small for the size of the result");
  return true;
}

} // namespace

bool read_factors(
    KernelRuntimeContext& ctx,
    const std::optional<ArrayRef<double>>& list,
    ScaleFactors& factors) {
  if (!list.has_value()) {
    return true;
  }
  CHECK_ARGUMENT(ctx, list->size() == 2, "scale_factors does not have two elements");
  factors.height = (*list)[0];
  factors.width = (*list)[1];
  return true;
}

bool check_resampling(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<ArrayRef<int64_t>>& output_size,
    const ScaleFactors& factors,
    bool align_corners,
    const Tensor& out,
    Resampling& resampling) {
  const auto sizes = input.sizes();
  const auto planned = out.sizes();
  CHECK_ARGUMENT(
      ctx,
      sizes.size() == 4 && planned.size() == 4,
      "The input or the result is not [N, C, height, width]");
  if (!same_dtype_or_fail(ctx, input, out) ||
      !set_axis(
          ctx,
          sizes[2],
          planned[2],
          output_size,
          0,
          factors.height,
          align_corners,
          resampling.height) ||
      !set_axis(
          ctx,
          sizes[3],
          planned[3],
          output_size,
          1,
          factors.width,
          align_corners,
          resampling.width)) {
    return false;
  }
  resampling.planes = sizes[0] * sizes[1];
  resampling.out_sizes.append(sizes[0]);
  resampling.out_sizes.append(sizes[1]);
  resampling.out_sizes.append(resampling.height.out);
  resampling.out_sizes.append(resampling.width.out);
  return true;
}

bool check_grid(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& grid,
    int64_t interpolation_mode,
    int64_t padding_mode,
    const Tensor& out,
    Shape& out_sizes) {
  const auto sizes = input.sizes();
  const auto grid_sizes = grid.sizes();
  CHECK_ARGUMENT(
      ctx,
      sizes.size() == 4 && grid_sizes.size() == 4 && grid_sizes[0] == sizes[0] &&
          grid_sizes[3] == 2 && sizes[2] >= 1 && sizes[3] >= 1,
      "input is not [N, C, H, W], or grid not [N, H', W', 2]");
  CHECK_ARGUMENT(
      ctx,
      interpolation_mode >= 0 && interpolation_mode <= 2 && padding_mode >= 0 && padding_mode <= 2,
      "interpolation_mode or padding_mode is unknown");
  if (!same_dtype_or_fail(ctx, input, grid) || !same_dtype_or_fail(ctx, input, out)) {
    return false;
  }
  out_sizes.append(sizes[0]);
  out_sizes.append(sizes[1]);
  out_sizes.append(grid_sizes[1]);
  out_sizes.append(grid_sizes[2]);
  return true;
}

} // namespace torch::executor::native
