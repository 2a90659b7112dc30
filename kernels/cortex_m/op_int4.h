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

/// torch_fusion::linear_int4.out, contiguous, and pointwise_int4.out, images channels last.
template <class S, LayerKind kKind>
Tensor& packed_int4_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*channels*/,
    Tensor& out) {
  constexpr bool kIsLinear = kKind == LayerKind::LinearInt4;
  PackedParts parts;
  const size_t dim = kIsLinear ? input.sizes().size() - 1 : 1;
  if (!check_packed_int4(ctx, input, dim, packed, kKind, out, parts) ||
      (kIsLinear && !check_contiguous<S>(ctx, input, out))) {
    return out;
  }
  const int32_t rows = static_cast<int32_t>(input.numel()) / parts.inner;
  if (size_channels<S>(ctx, input, dim, parts, rows, out) &&
      (kIsLinear || check_channels_last(ctx, input, out))) {
    packed_int4(parts, input.const_data_ptr<int8_t>(), rows, out.mutable_data_ptr<int8_t>());
  }
  return out;
}
template <class S>
constexpr auto& packed_linear_int4_out = packed_int4_out<S, LayerKind::LinearInt4>;
template <class S>
constexpr auto& packed_pointwise_int4_out = packed_int4_out<S, LayerKind::PointwiseInt4>;

} // namespace torch::executor::native::cortex_m
