#pragma once

#include <optional>

#include "kernels/portable/resample.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/// What resampling takes.
using ImageTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Byte,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Double>;

/// The planes of an image [N, C, H, W] and how it is resampled.
struct Resampling {
  int32_t planes;
  ResampledAxis height;
  ResampledAxis width;
  Shape out_sizes;
};

/**
 * Checks an image and sets how it is resampled, from a size or from factors: a size wins for the
 * result's size, factors for the distance of its elements.
 *
 * @returns false after failing the context (InvalidArgument) if there is neither, or they are out
 *     of range.
 */
bool check_resampling(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<ArrayRef<int64_t>>& output_size,
    std::optional<double> scale_height,
    std::optional<double> scale_width,
    bool align_corners,
    const Tensor& out,
    Resampling& resampling);

/// The factor of a dim from a list of two, if there is one.
bool scale_factor(
    KernelRuntimeContext& ctx,
    const std::optional<ArrayRef<double>>& factors,
    size_t dim,
    std::optional<double>& factor);

/// aten::upsample_nearest2d.vec_out, contiguous.
template <class S>
Tensor& upsample_nearest2d_vec_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    std::optional<ArrayRef<int64_t>> output_size,
    std::optional<ArrayRef<double>> scale_factors,
    Tensor& out) {
  std::optional<double> height;
  std::optional<double> width;
  Resampling how;
  if (!check_contiguous<S>(ctx, input, out) || !scale_factor(ctx, scale_factors, 0, height) ||
      !scale_factor(ctx, scale_factors, 1, width) ||
      !check_resampling(ctx, input, output_size, height, width, false, out, how) ||
      !shape_out<S>(ctx, out, how.out_sizes)) {
    return out;
  }
  dispatch<ImageTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    upsample_nearest(
        input.const_data_ptr<T>(), out.mutable_data_ptr<T>(), how.planes, how.height, how.width);
  });
  return out;
}

/// aten::upsample_bilinear2d.vec_out, contiguous.
template <class S>
Tensor& upsample_bilinear2d_vec_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    std::optional<ArrayRef<int64_t>> output_size,
    bool align_corners,
    std::optional<ArrayRef<double>> scale_factors,
    Tensor& out) {
  std::optional<double> height;
  std::optional<double> width;
  Resampling how;
  if (!check_contiguous<S>(ctx, input, out) || !scale_factor(ctx, scale_factors, 0, height) ||
      !scale_factor(ctx, scale_factors, 1, width) ||
      !check_resampling(ctx, input, output_size, height, width, align_corners, out, how) ||
      !shape_out<S>(ctx, out, how.out_sizes)) {
    return out;
  }
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    upsample_bilinear(
        input.const_data_ptr<T>(), out.mutable_data_ptr<T>(), how.planes, how.height, how.width);
  });
  return out;
}

/// aten::_upsample_bilinear2d_aa.out, contiguous.
template <class S>
Tensor& upsample_bilinear2d_aa_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> output_size,
    bool align_corners,
    std::optional<double> scales_h,
    std::optional<double> scales_w,
    Tensor& out) {
  Resampling how;
  if (!check_contiguous<S>(ctx, self, out) ||
      !check_resampling(ctx, self, output_size, scales_h, scales_w, align_corners, out, how) ||
      !shape_out<S>(ctx, out, how.out_sizes)) {
    return out;
  }
  dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    upsample_antialiased(
        self.const_data_ptr<T>(), out.mutable_data_ptr<T>(), how.planes, how.height, how.width);
  });
  return out;
}

/// Checks the arguments of grid_sampler_2d and computes the result's shape.
bool check_grid(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& grid,
    int64_t interpolation_mode,
    int64_t padding_mode,
    const Tensor& out,
    Shape& out_sizes);

/// aten::grid_sampler_2d.out, contiguous: input [N, C, H, W], grid [N, H', W', 2].
template <class S>
Tensor& grid_sampler_2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& grid,
    int64_t interpolation_mode,
    int64_t padding_mode,
    bool align_corners,
    Tensor& out) {
  Shape out_sizes;
  if (!check_contiguous<S>(ctx, input, grid, out) ||
      !check_grid(ctx, input, grid, interpolation_mode, padding_mode, out, out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  const auto sizes = input.sizes();
  const int32_t points = out_sizes.sizes[2] * out_sizes.sizes[3];
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = input.const_data_ptr<T>();
    const T* at = grid.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (int32_t image = 0; image < sizes[0]; ++image) {
      grid_sample(
          from,
          at,
          to,
          sizes[1],
          sizes[2],
          sizes[3],
          points,
          static_cast<Interpolation>(interpolation_mode),
          static_cast<GridPadding>(padding_mode),
          align_corners);
      from += sizes[1] * sizes[2] * sizes[3];
      at += 2 * points;
      to += sizes[1] * points;
    }
  });
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
