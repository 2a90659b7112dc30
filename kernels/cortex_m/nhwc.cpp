#include "kernels/cortex_m/nhwc.h"

namespace torch::executor::native::cortex_m {

namespace {

/// The dim of an image [batch, height, width, channels] that each of [batch, channels, height,
/// width] is, and the dims of the latter as they are in memory.
constexpr size_t kFrom[] = {0, 3, 1, 2};
Tensor::DimOrderType dim_order[] = {0, 2, 3, 1};

} // namespace

ChannelsLast::ChannelsLast(const Tensor& nhwc)
    : sizes_{nhwc.sizes()[kFrom[0]], nhwc.sizes()[kFrom[1]], nhwc.sizes()[kFrom[2]], nhwc.sizes()[kFrom[3]]},
      strides_{
          nhwc.strides()[kFrom[0]],
          nhwc.strides()[kFrom[1]],
          nhwc.strides()[kFrom[2]],
          nhwc.strides()[kFrom[3]]},
      impl_(
          nhwc.scalar_type(),
          4,
          sizes_,
          const_cast<void*>(nhwc.const_data_ptr()),
          dim_order,
          strides_) {}

bool check_nhwc(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out) {
  CHECK_ARGUMENT(ctx, input.dim() == 4 && out.dim() == 4, "An image does not have 4 dims");
  return contiguous_or_fail(ctx, input) && contiguous_or_fail(ctx, out);
}

} // namespace torch::executor::native::cortex_m
