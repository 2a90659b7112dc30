#pragma once

#include "kernels/cortex_m/packed_layers.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Checks a packed layer on images against its tensors, and describes it.
bool check_packed_images(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    LayerKind kind,
    const Tensor& scratch,
    const Tensor& out,
    PackedParts& parts,
    PackedImages& images,
    Shape& sizes);

/// Fails the context (NotSupported) and returns false unless both images lie channels last.
bool check_channels_last(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out);

bool check_packed_linear(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const Tensor& out,
    PackedParts& parts,
    int32_t& rows,
    Shape& sizes);

// The geometry that the schemas have is for the export's shape inference; the packed constant says
// it all.

/// torch_fusion::convolution.out: images channels last.
template <class S>
Tensor& packed_convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    const Tensor& scratch,
    Tensor& out) {
  PackedParts parts;
  PackedImages images;
  Shape sizes;
  if (check_packed_images(
          ctx, input, packed, LayerKind::Convolution, scratch, out, parts, images, sizes) &&
      shape_out<S>(ctx, out, sizes) && check_channels_last(ctx, input, out)) {
    packed_convolution(
        parts,
        images,
        input.const_data_ptr<int8_t>(),
        scratch.mutable_data_ptr<int8_t>(),
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// torch_fusion::depthwise_convolution.out: images channels last, one output channel per input
/// channel.
template <class S>
Tensor& packed_depthwise_convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    const Tensor& scratch,
    Tensor& out) {
  PackedParts parts;
  PackedImages images;
  Shape sizes;
  if (check_packed_images(
          ctx, input, packed, LayerKind::Depthwise, scratch, out, parts, images, sizes) &&
      shape_out<S>(ctx, out, sizes) && check_channels_last(ctx, input, out)) {
    packed_depthwise(
        parts,
        images,
        input.const_data_ptr<int8_t>(),
        scratch.mutable_data_ptr<int8_t>(),
        out.mutable_data_ptr<int8_t>());
  }
  return out;
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
  int32_t rows = 0;
  Shape sizes;
  if (check_packed_linear(ctx, input, packed, out, parts, rows, sizes) &&
      shape_out<S>(ctx, out, sizes)) {
    packed_linear(parts, input.const_data_ptr<int8_t>(), rows, out.mutable_data_ptr<int8_t>());
  }
  return out;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
