#pragma once

#include <optional>

#include "kernels/portable/resample.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// The dtypes that resampling takes.
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

/// Factors of an image's size; without one, it is the quotient of the sizes.
struct ScaleFactors {
  std::optional<double> height;
  std::optional<double> width;
};

/**
 * Reads a list of two factors, if there is one.
 *
 * @returns false after failing the context (InvalidArgument) if it has not two elements.
 */
bool read_factors(
    KernelRuntimeContext& ctx,
    const std::optional<ArrayRef<double>>& list,
    ScaleFactors& factors);

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
    const ScaleFactors& factors,
    bool align_corners,
    const Tensor& out,
    Resampling& resampling);

/// Whether the channels of an image [N, C, H, W] are neighbours.
inline bool has_pixels(const Tensor& image) {
  const auto order = image.dim_order();
  return order.size() == 4 && order[0] == 0 && order[1] == 2 && order[2] == 3;
}

/**
 * Returns how many neighbouring elements a pixel of two images has, and leaves their planes in
 * `resampling`: the channels of channels-last images, and one of contiguous ones.
 *
 * @returns 0 after failing the context (NotSupported) if the images are neither.
 */
template <class S>
int32_t pixel_elements(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& out,
    Resampling& resampling) {
  if constexpr (S::has(Variant::DimOrder)) {
    const int32_t channels = input.sizes()[1];
    if (channels != 0 && has_pixels(input) && has_pixels(out)) {
      resampling.planes = input.sizes()[0];
      return channels;
    }
  }
  return check_contiguous<S>(ctx, input, out) ? 1 : 0;
}

/// aten::upsample_nearest2d.vec_out, contiguous or channels-last.
template <class S>
Tensor& upsample_nearest2d_vec_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    std::optional<ArrayRef<int64_t>> output_size,
    std::optional<ArrayRef<double>> scale_factors,
    Tensor& out) {
  ScaleFactors factors;
  Resampling how;
  if (!read_factors(ctx, scale_factors, factors) ||
      !check_resampling(ctx, input, output_size, factors, false, out, how)) {
    return out;
  }
  const int32_t elements = pixel_elements<S>(ctx, input, out, how);
  if (elements == 0 || !shape_out<S>(ctx, out, how.out_sizes)) {
    return out;
  }
  dispatch<ImageTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    upsample_nearest(
        input.const_data_ptr<T>(),
        out.mutable_data_ptr<T>(),
        how.planes,
        how.height,
        how.width,
        elements);
  });
  return out;
}

/// The distances of a tensor [N, C, height, width], in any dim order.
inline ImageSteps image_steps(const Tensor& tensor) {
  int32_t strides[kMaxDims];
  strides_of(tensor, strides);
  return {strides[0], strides[1], strides[2], strides[3]};
}

/// aten::upsample_bilinear2d.vec_out
template <class S>
Tensor& upsample_bilinear2d_vec_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    std::optional<ArrayRef<int64_t>> output_size,
    bool align_corners,
    std::optional<ArrayRef<double>> scale_factors,
    Tensor& out) {
  ScaleFactors factors;
  Resampling how;
  if (!read_factors(ctx, scale_factors, factors) ||
      !check_resampling(ctx, input, output_size, factors, align_corners, out, how) ||
      !shape_out<S>(ctx, out, how.out_sizes)) {
    return out;
  }
  const ImageSteps from = image_steps(input);
  const ImageSteps to = image_steps(out);
  const auto sizes = input.sizes();
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    upsample_bilinear(
        input.const_data_ptr<T>(),
        from,
        out.mutable_data_ptr<T>(),
        to,
        sizes[0],
        sizes[1],
        how.height,
        how.width);
  });
  return out;
}

/// aten::_upsample_bilinear2d_aa.out, contiguous or channels-last.
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
  const ScaleFactors factors{scales_h, scales_w};
  if (!check_resampling(ctx, self, output_size, factors, align_corners, out, how)) {
    return out;
  }
  const int32_t elements = pixel_elements<S>(ctx, self, out, how);
  if (elements == 0 || !shape_out<S>(ctx, out, how.out_sizes)) {
    return out;
  }
  dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    upsample_antialiased(
        self.const_data_ptr<T>(),
        out.mutable_data_ptr<T>(),
        how.planes,
        how.height,
        how.width,
        elements);
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

} // namespace torch::executor::native
