#include "kernels/cortex_m/op_prelu.h"

#include "kernels/cortex_m/image.h"
#include "kernels/cortex_m/requantize.h"

namespace torch::executor::native::cortex_m {

bool check_prelu(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const PreluArguments& arguments,
    const Tensor& out,
    Prelu& parameters) {
  const auto sizes = input.sizes();
  int32_t output_zero_point;
  if (!check_int8(ctx, input, out) ||
      !check_offset(ctx, arguments.zero_point, parameters.zero_point, 0x80) ||
      !check_offset(ctx, arguments.output_zero_point, output_zero_point, 0x80) ||
      !dtype_or_fail(ctx, arguments.negative, ScalarType::Int, "negative")) {
    return false;
  }
  constexpr int64_t kLargest = int64_t{1} << kMaxPreluShift;
  CHECK_ARGUMENT(
      ctx,
      sizes.size() >= 2 && sizes[1] == arguments.negative.numel() && arguments.shift >= 0 &&
          arguments.shift <= kMaxPreluShift && arguments.positive >= 0 &&
          arguments.positive <= kLargest,
      "A PReLU's factors are none of its input's, or out of range");
  const bool is_contiguous_input = is_contiguous(input);
  KERNEL_CHECK(
      ctx,
      (is_contiguous_input || has_channels_last(input)) && same_dim_order(input, out),
      NotSupported,
      false,
      "A PReLU's tensors lie in an order that it does not take");
  parameters.negative = arguments.negative.const_data_ptr<int32_t>();
  parameters.positive = static_cast<int32_t>(arguments.positive);
  parameters.shift = static_cast<int32_t>(arguments.shift);
  parameters.addend = output_zero_point * (1 << parameters.shift) + (1 << parameters.shift >> 1);
  parameters.channels = static_cast<int32_t>(sizes[1]);
  const auto count = static_cast<int32_t>(input.numel());
  const int32_t batch = static_cast<int32_t>(sizes[0]);
  if (count == 0) {
    parameters.outer = parameters.inner = 0;
  } else if (is_contiguous_input) {
    parameters.outer = batch;
    parameters.inner = count / (batch * parameters.channels);
  } else {
    parameters.outer = count / parameters.channels;
    parameters.inner = 1;
  }
  return true;
}

} // namespace torch::executor::native::cortex_m
