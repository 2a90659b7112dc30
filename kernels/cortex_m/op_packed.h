#pragma once

#include "kernels/cortex_m/packed_depthwise.h"
#include "kernels/cortex_m/packed_layers.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// A way to compute packed layers of a kind on images: the layers that it takes, and the bytes of
/// scratch memory that it needs for them.
struct PackedImageKernel {
  LayerKind kind;
  bool (*takes)(const PackedLayer& layer);
  int64_t (*scratch)(const PackedParts& parts, const Window& width);
  void (*compute)(
      const PackedParts& parts,
      const PackedImages& images,
      const int8_t* in,
      int8_t* scratch,
      int8_t* out);
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

/// Checks a packed linear layer against its tensors.
bool check_packed_linear(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const Tensor& out,
    PackedParts& parts);

/// Checks a packed linear layer of many rows against its tensors.
bool check_packed_rows(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const Tensor& scratch,
    const Tensor& out,
    PackedParts& parts);

// The geometry that the schemas have is for the export's shape inference; the packed constant says
// it all.

/// A packed layer on images, channels last.
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

/// torch_fusion::convolution.out: images channels last.
template <class S>
Tensor& packed_convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  constexpr PackedImageKernel kKernel = {
      LayerKind::Convolution, takes_convolution, convolution_scratch, packed_convolution};
  packed_images_out<S>(ctx, input, packed, kKernel, scratch, out);
  return out;
}

/// torch_fusion::grouped_convolution.out: images channels last.
template <class S>
Tensor& packed_grouped_convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  constexpr PackedImageKernel kKernel = {
      LayerKind::Grouped, takes_grouped, grouped_scratch, packed_grouped_convolution};
  packed_images_out<S>(ctx, input, packed, kKernel, scratch, out);
  return out;
}

/// Does the same as packed_depthwise() for any layer.
inline void any_packed_depthwise(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  packed_depthwise(parts, images, in, scratch, out, kNeedsAll);
}

/// torch_fusion::depthwise_convolution.out: images channels last, one output channel per input
/// channel.
template <class S>
Tensor& packed_depthwise_convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  constexpr PackedImageKernel kKernel = {
      LayerKind::Depthwise, takes_depthwise, depthwise_scratch, any_packed_depthwise};
  packed_images_out<S>(ctx, input, packed, kKernel, scratch, out);
  return out;
}

/// Gives `out` the sizes of rows of a layer's outputs. Fails the context (InvalidArgument) and
/// returns false if it has no room for them.
template <class S>
bool size_rows(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const PackedParts& parts,
    int32_t rows,
    Tensor& out) {
  const int32_t channels = parts.layer->channels;
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape sizes(input.sizes());
    sizes.sizes[sizes.dims - 1] = channels;
    return resize_out(ctx, out, sizes);
  }
  // Static shapes, which the export checks, need no more than this for memory safety.
  CHECK_ARGUMENT(
      ctx,
      int64_t{rows} * channels == out.numel(),
      "out does not have the elements that the layer computes");
  return true;
}

/// torch_fusion::linear.out, contiguous.
template <class S>
Tensor& packed_linear_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& out) {
  PackedParts parts;
  if (!check_packed_linear(ctx, input, packed, out, parts) ||
      !check_contiguous<S>(ctx, input, out)) {
    return out;
  }
  const int32_t rows = static_cast<int32_t>(input.numel()) / parts.inner;
  if (size_rows<S>(ctx, input, parts, rows, out)) {
    packed_linear(
        parts, input.const_data_ptr<int8_t>(), rows, out.mutable_data_ptr<int8_t>(), kNeedsAll);
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
  PackedParts parts;
  if (!check_packed_rows(ctx, input, packed, scratch, out, parts) ||
      !check_contiguous<S>(ctx, input, out)) {
    return out;
  }
  const int32_t rows = static_cast<int32_t>(input.numel()) / parts.inner;
  if (size_rows<S>(ctx, input, parts, rows, out)) {
    packed_linear_rows(
        parts,
        input.const_data_ptr<int8_t>(),
        rows,
        scratch.mutable_data_ptr<int8_t>(),
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
