#pragma once

#include "kernels/cortex_m/op_packed.h"
#include "kernels/cortex_m/winograd.h"

namespace torch::executor::native::cortex_m {

/// torch_fusion::winograd_convolution.out: images channels last.
template <class S>
Tensor& packed_winograd_convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  constexpr PackedImageKernel kKernel = {
      LayerKind::Winograd, takes_winograd, winograd_scratch, packed_winograd};
  packed_images_out<S>(ctx, input, packed, kKernel, scratch, out);
  return out;
}

} // namespace torch::executor::native::cortex_m
