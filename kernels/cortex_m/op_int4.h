#pragma once

#include "kernels/cortex_m/int4.h"
#include "kernels/cortex_m/op_packed.h"

namespace torch::executor::native::cortex_m {

/// Checks a packed layer with int4 weights against its input, whose dimension `dim` has the
/// channels, and the size of its output.
bool check_packed_int4(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    size_t dim,
    const Tensor& packed,
    LayerKind kind,
    const Tensor& out,
    PackedParts& parts);

/// The channels' dim of a result, and its vectors.
template <class S>
bool int4_shape_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    size_t dim,
    const PackedParts& parts,
    Tensor& out) {
  const int32_t channels = parts.layer->channels;
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape sizes(input.sizes());
    sizes.sizes[dim] = channels;
    return resize_out(ctx, out, sizes);
  } else {
    // Static shapes, which the export checks, need no more than this for memory safety.
    CHECK_ARGUMENT(
        ctx,
        int64_t{input.numel() / parts.inner} * channels == out.numel(),
        "out does not have the elements that the layer computes");
    return true;
  }
}

/// torch_fusion::linear_int4.out, contiguous.
template <class S>
Tensor& packed_linear_int4_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*channels*/,
    Tensor& out) {
  PackedParts parts;
  const size_t dim = input.sizes().size() - 1;
  if (check_packed_int4(ctx, input, dim, packed, LayerKind::LinearInt4, out, parts) &&
      check_contiguous<S>(ctx, input, out) && int4_shape_out<S>(ctx, input, dim, parts, out)) {
    packed_int4(
        parts,
        input.const_data_ptr<int8_t>(),
        static_cast<int32_t>(input.numel()) / parts.inner,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// torch_fusion::pointwise_int4.out: images channels last.
template <class S>
Tensor& packed_pointwise_int4_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*channels*/,
    Tensor& out) {
  PackedParts parts;
  if (check_packed_int4(ctx, input, 1, packed, LayerKind::PointwiseInt4, out, parts) &&
      int4_shape_out<S>(ctx, input, 1, parts, out) && check_channels_last(ctx, input, out)) {
    packed_int4(
        parts,
        input.const_data_ptr<int8_t>(),
        static_cast<int32_t>(input.numel()) / parts.inner,
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
