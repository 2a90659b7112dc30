#pragma once

#include "kernels/cortex_m/packed_depthwise.h"
#include "kernels/cortex_m/packed_layers.h"
#include "kernels/soft_double.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// A way to compute packed layers of a kind on images: the layers that it takes, and the bytes of
/// scratch memory that it needs for them.
struct PackedImageKernel {
  LayerKind kind;
  bool (*takes)(const PackedLayer& layer);
  int64_t (*scratch)(const PackedParts& parts, const Window& width);
  PackedImagesFunction<const PackedParts&>* compute;
};

/// Checks a packed layer on images against its tensors, and describes it.
bool check_packed_images(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const PackedImageKernel& kernel,
    const Tensor& scratch,
    const Tensor& out,
    PackedParts& parts,
    PackedImages& images,
    Shape& sizes);

/// Fails the context (NotSupported) and returns false unless both images are channels-last.
bool check_channels_last(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out);

/// Checks a packed linear layer against its input, which has a dtype.
bool check_packed_linear(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ScalarType dtype,
    const Tensor& packed,
    PackedParts& parts);

/// Fails the context (InvalidArgument) and returns false unless there is scratch memory enough for
/// linear_rows.
bool check_rows_scratch(KernelRuntimeContext& ctx, const PackedParts& parts, const Tensor& scratch);

/// Returns the inverse scale of the inputs that a linear layer quantizes. Fails the context and
/// returns 0 for more than kMostFloats inputs, and for a scale out of range.
float check_floats(KernelRuntimeContext& ctx, const Tensor& input, double scale);

/// Takes the zero point of outputs that a linear layer dequantizes into a tensor. Fails the context
/// and returns false for a zero point out of range, and for a tensor that is not float32.
bool check_dequantization(
    KernelRuntimeContext& ctx,
    int64_t zero_point,
    const Tensor& out,
    int32_t& offset);

// The geometry that the schemas have is for the export's shape inference; the packed constant says
// it all.

/// Computes a packed layer on images, channels last.
template <class S>
void packed_images_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const PackedImageKernel& kernel,
    Tensor& scratch,
    Tensor& out) {
  PackedParts parts;
  PackedImages images;
  Shape sizes;
  if (check_packed_images(ctx, input, packed, kernel, scratch, out, parts, images, sizes) &&
      shape_out<S>(ctx, out, sizes) && check_channels_last(ctx, input, out)) {
    kernel.compute(
        parts,
        images,
        input.const_data_ptr<int8_t>(),
        scratch.mutable_data_ptr<int8_t>(),
        out.mutable_data_ptr<int8_t>());
  }
}

/// torch_fusion::convolution.out and its like: images channels last.
template <class S, const PackedImageKernel& kKernel>
Tensor& packed_images_of(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  packed_images_out<S>(ctx, input, packed, kKernel, scratch, out);
  return out;
}

/// Calls a kernel that has needs with all of them.
template <PackedImagesNeedsFunction<const PackedParts&>& kKernel>
void compute_any(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  kKernel(parts, images, in, scratch, out, kNeedsAll);
}

inline constexpr PackedImageKernel kConvolution = {
    LayerKind::Convolution,
    takes_convolution,
    convolution_scratch,
    compute_any<packed_convolution>};
inline constexpr PackedImageKernel kGrouped = {
    LayerKind::Grouped,
    takes_grouped,
    grouped_scratch,
    packed_grouped_convolution};
inline constexpr PackedImageKernel kDepthwise = {
    LayerKind::Depthwise,
    takes_depthwise,
    depthwise_scratch,
    compute_any<packed_depthwise>};
template <class S>
constexpr auto& packed_convolution_out = packed_images_of<S, kConvolution>;
template <class S>
constexpr auto& packed_grouped_convolution_out = packed_images_of<S, kGrouped>;
/// Has one output channel per input channel.
template <class S>
constexpr auto& packed_depthwise_convolution_out = packed_images_of<S, kDepthwise>;

/// Gives `out` the input's sizes with a layer's channels as dim `dim`. Fails the context
/// (InvalidArgument) and returns false if it has no room for `rows` vectors of them.
template <class S>
bool size_channels(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    size_t dim,
    const PackedParts& parts,
    int32_t rows,
    Tensor& out) {
  const int32_t channels = parts.layer->channels;
  if constexpr (S::has(Variant::DynamicShape)) {
    if (out.shape_dynamism() != executorch::aten::TensorShapeDynamism::STATIC) {
      Shape sizes(input.sizes());
      sizes.sizes[dim] = channels;
      return resize_out(ctx, out, sizes);
    }
  }
  // Static shapes, which the export checks, need no more than this for memory safety.
  CHECK_ARGUMENT(
      ctx,
      int64_t{rows} * channels == out.numel(),
      "out does not have the elements that the layer computes");
  return true;
}

/// Checks a linear layer and gives `out` its sizes. Returns the number of rows; fails the context
/// and returns -1 if it has none.
template <class S>
int32_t open_rows(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ScalarType dtype,
    const Tensor& packed,
    Tensor& out,
    PackedParts& parts) {
  if (!check_packed_linear(ctx, input, dtype, packed, parts) ||
      !check_contiguous<S>(ctx, input, out)) {
    return -1;
  }
  const int32_t rows = static_cast<int32_t>(input.numel()) / parts.inner;
  return size_channels<S>(ctx, input, input.sizes().size() - 1, parts, rows, out) ? rows : -1;
}

/// Calls `compute(parts, in, rows)` for the rows of type T of a linear layer, if it has any.
template <class S, class T = int8_t, class Compute>
void compute_rows(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    Tensor& out,
    Compute&& compute) {
  constexpr ScalarType kDtype = std::is_same_v<T, float> ? ScalarType::Float : ScalarType::Char;
  PackedParts parts;
  const int32_t rows = open_rows<S>(ctx, input, kDtype, packed, out, parts);
  if (rows >= 0) {
    compute(parts, input.const_data_ptr<T>(), rows);
  }
}

/// torch_fusion::linear.out, contiguous.
template <class S>
Tensor& packed_linear_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& out) {
  if (check_int8(ctx, out)) {
    compute_rows<S>(ctx, input, packed, out, [&](const auto&... given) {
      packed_linear(given..., out.mutable_data_ptr<int8_t>(), kNeedsAll);
    });
  }
  return out;
}

/// torch_fusion::linear_to_float.out, contiguous: the same, dequantized.
template <class S>
Tensor& packed_linear_to_float_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    double scale,
    int64_t zero_point,
    Tensor& out) {
  int32_t offset = 0;
  if (check_dequantization(ctx, zero_point, out, offset)) {
    compute_rows<S>(ctx, input, packed, out, [&](const auto&... given) {
      packed_linear_to_float(
          given..., float_of(scale), offset, out.mutable_data_ptr<float>(), kNeedsAll);
    });
  }
  return out;
}

/// torch_fusion::linear_from_float.out, contiguous: linear of inputs that it quantizes.
template <class S>
Tensor& packed_linear_from_float_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    double input_scale,
    Tensor& out) {
  const float inverse_scale = check_floats(ctx, input, input_scale);
  if (inverse_scale != 0 && check_int8(ctx, out)) {
    compute_rows<S, float>(ctx, input, packed, out, [&](const auto&... given) {
      packed_linear_from_float(given..., inverse_scale, out.mutable_data_ptr<int8_t>(), kNeedsAll);
    });
  }
  return out;
}

/// torch_fusion::linear_of_floats.out, contiguous: the same, dequantized.
template <class S>
Tensor& packed_linear_of_floats_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    double input_scale,
    double scale,
    int64_t zero_point,
    Tensor& out) {
  int32_t offset = 0;
  if (!check_dequantization(ctx, zero_point, out, offset)) {
    return out;
  }
  const float inverse_scale = check_floats(ctx, input, input_scale);
  if (inverse_scale != 0) {
    compute_rows<S, float>(ctx, input, packed, out, [&](const auto&... given) {
      float* const to = out.mutable_data_ptr<float>();
      packed_linear_of_floats(given..., inverse_scale, float_of(scale), offset, to, kNeedsAll);
    });
  }
  return out;
}

/// torch_fusion::linear_table.out, contiguous: the same as linear, then out = table[out + 128].
template <class S>
Tensor& packed_linear_table_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    const Tensor& table,
    Tensor& out) {
  KERNEL_CHECK(ctx, table.numel() == 256, InvalidArgument, out, "table does not have 256 elements");
  if (check_int8(ctx, table, out)) {
    compute_rows<S>(ctx, input, packed, out, [&](const auto&... given) {
      const int8_t* const values = table.const_data_ptr<int8_t>();
      packed_linear_table(given..., values, out.mutable_data_ptr<int8_t>(), kNeedsAll);
    });
  }
  return out;
}

/// torch_fusion::linear_rows.out, contiguous.
template <class S>
Tensor& packed_linear_rows_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  if (check_int8(ctx, out)) {
    compute_rows<S>(ctx, input, packed, out, [&](const PackedParts& parts, const auto&... given) {
      if (check_rows_scratch(ctx, parts, scratch)) {
        int8_t* const memory = scratch.mutable_data_ptr<int8_t>();
        packed_linear_rows(parts, given..., memory, out.mutable_data_ptr<int8_t>());
      }
    });
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
