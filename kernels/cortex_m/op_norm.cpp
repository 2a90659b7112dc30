#include "kernels/cortex_m/op_norm.h"

#include "kernels/cortex_m/image.h"
#include "kernels/soft_double.h"

namespace torch::executor::native::cortex_m {

bool check_norm(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const NormArguments& arguments,
    const Tensor& out,
    Normalization& norm) {
  const Tensor& weight = arguments.weight;
  const Tensor& bias = arguments.bias;
  const float epsilon = float_of(arguments.epsilon);
  norm.is_centered = !arguments.center.has_value();
  norm.center = 0;
  if (!check_int8(ctx, input, out) ||
      (!norm.is_centered && !check_offset(ctx, *arguments.center, norm.center, 0x80)) ||
      !dtype_or_fail(ctx, weight, ScalarType::Short, "weight") ||
      !dtype_or_fail(ctx, bias, ScalarType::Int, "bias")) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      weight.numel() > 0 && weight.numel() <= kMaxNormalized && bias.numel() == weight.numel() &&
          input.numel() % weight.numel() == 0,
      "A normalization's weights and biases are none of its input's");
  // This is also false for NaN.
  CHECK_ARGUMENT(
      ctx,
      epsilon >= 0.0f && arguments.shift >= 0 && arguments.shift < 31,
      "A normalization's epsilon or shift is out of range");
  norm.weight = weight.const_data_ptr<int16_t>();
  norm.bias = bias.const_data_ptr<int32_t>();
  norm.channels = static_cast<int32_t>(weight.numel());
  norm.pixels = 1;
  norm.channel_step = 1;
  norm.pixel_step = norm.channels;
  norm.epsilon = epsilon;
  norm.shift = static_cast<int32_t>(arguments.shift);
  return true;
}

bool split_channels(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& out,
    int64_t groups,
    Normalization& norm) {
  const auto sizes = input.sizes();
  const int32_t channels = norm.channels;
  CHECK_ARGUMENT(
      ctx,
      sizes.size() >= 2 && sizes[1] == channels && groups > 0 && groups <= channels &&
          channels % groups == 0 && input.numel() > 0,
      "A normalization's groups are none of its input's channels");
  const bool is_contiguous_input = is_contiguous(input);
  KERNEL_CHECK(
      ctx,
      (is_contiguous_input || has_channels_last(input)) && same_dim_order(input, out),
      NotSupported,
      false,
      "A normalization's tensors lie in an order that it does not take");
  norm.channels = channels / static_cast<int32_t>(groups);
  norm.pixels = static_cast<int32_t>(input.numel()) / (sizes[0] * channels);
  norm.channel_step = is_contiguous_input ? norm.pixels : 1;
  norm.pixel_step = is_contiguous_input ? 1 : channels;
  CHECK_ARGUMENT(
      ctx,
      norm.pixels <= kMaxNormalized / norm.channels,
      "A normalization's groups have more than %d values",
      static_cast<int>(kMaxNormalized));
  return true;
}

} // namespace torch::executor::native::cortex_m
