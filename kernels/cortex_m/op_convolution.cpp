#include "kernels/cortex_m/op_convolution.h"

namespace torch::executor::native::cortex_m {

namespace {

bool check_per_channel(
    KernelRuntimeContext& ctx,
    const Tensor& tensor,
    int32_t channels,
    [[maybe_unused]] const char* name) {
  if (!dtype_or_fail(ctx, tensor, ScalarType::Int, name)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx, tensor.numel() == channels, "%s does not have one element per output channel", name);
  return true;
}

} // namespace

bool check_parameters(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const Tensor& out,
    ConvolutionParameters& parameters) {
  const Tensor& input = arguments.input;
  const Tensor& weight = arguments.weight;
  const std::optional<Tensor>& bias = arguments.bias;
  if (!check_int8(ctx, input, weight, out)) {
    return false;
  }
  CHECK_ARGUMENT(ctx, input.dim() == 4 && weight.dim() == 4, "input and weight do not have 4 dims");
  if (!contiguous_or_fail(ctx, weight) || !check_pair(ctx, arguments.stride, 1) ||
      !check_pair(ctx, arguments.padding, 0) || !check_pair(ctx, arguments.dilation, 1) ||
      !check_offset(ctx, arguments.input_offset, parameters.input_offset) ||
      !check_offset(ctx, arguments.output_offset, parameters.output_offset) ||
      !check_range(ctx, arguments.activation_min, arguments.activation_max, parameters.range)) {
    return false;
  }
  const auto sizes = weight.sizes();
  // The rest of a kernel's sizes would stand for work without elements.
  CHECK_ARGUMENT(
      ctx,
      arguments.layout != WeightLayout::OHWI || sizes[3] > 0 || sizes[0] == 0,
      "weight has no input channels");
  CHECK_ARGUMENT(
      ctx,
      arguments.layout == WeightLayout::OHWI || sizes[0] == 1,
      "weight is not [1, height, width, out]");
  const int32_t channels = arguments.out_channels();
  if ((bias.has_value() && !check_per_channel(ctx, *bias, channels, "bias")) ||
      !check_per_channel(ctx, arguments.multipliers, channels, "requantize_multipliers") ||
      !check_per_channel(ctx, arguments.shifts, channels, "requantize_shifts")) {
    return false;
  }
  parameters.bias = bias.has_value() ? bias->const_data_ptr<int32_t>() : nullptr;
  parameters.multipliers = arguments.multipliers.const_data_ptr<int32_t>();
  parameters.shifts = arguments.shifts.const_data_ptr<int32_t>();
  for (int32_t i = 0; i < channels; ++i) {
    Factor factor;
    if (!check_factor(ctx, parameters.multipliers[i], parameters.shifts[i], factor)) {
      return false;
    }
  }
  parameters.height.kernel = sizes[1];
  parameters.width.kernel = sizes[2];
  return true;
}

bool convolution_sizes(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    ConvolutionParameters& parameters,
    Shape& sizes) {
  const Tensor& input = arguments.input;
  Window& height = parameters.height;
  Window& width = parameters.width;
  height.in = input.sizes()[2];
  width.in = input.sizes()[3];
  if (!height.set(ctx, arguments.stride, arguments.padding, arguments.dilation, 0, false) ||
      !width.set(ctx, arguments.stride, arguments.padding, arguments.dilation, 1, false)) {
    return false;
  }
  sizes.append(input.sizes()[0]);
  sizes.append(arguments.out_channels());
  sizes.append(height.out);
  sizes.append(width.out);
  return true;
}

bool transpose_sizes(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    ConvolutionParameters& parameters,
    Shape& sizes) {
  const Tensor& input = arguments.input;
  const ArrayRef<int64_t> output_padding = arguments.output_padding;
  if (!check_pair(ctx, output_padding, 0)) {
    return false;
  }
  sizes.append(input.sizes()[0]);
  sizes.append(arguments.out_channels());
  Window* const windows[] = {&parameters.height, &parameters.width};
  for (size_t i = 0; i < 2; ++i) {
    Window& window = *windows[i];
    const int64_t out = (int64_t{input.sizes()[2 + i]} - 1) * arguments.stride[i] -
        2 * arguments.padding[i] + arguments.dilation[i] * (int64_t{window.kernel} - 1) +
        output_padding[i] + 1;
    CHECK_ARGUMENT(
        ctx,
        input.sizes()[2 + i] > 0 && window.kernel > 0 && out > 0 && out < 0x10000000 &&
            output_padding[i] < (arguments.stride[i] > arguments.dilation[i]
                                     ? arguments.stride[i]
                                     : arguments.dilation[i]),
        "The sizes, padding or output_padding of a transposed convolution do not fit together");
    window.in = static_cast<int32_t>(out);
    window.stride = static_cast<int32_t>(arguments.stride[i]);
    window.padding = static_cast<int32_t>(arguments.padding[i]);
    window.dilation = static_cast<int32_t>(arguments.dilation[i]);
    window.out = input.sizes()[2 + i];
    sizes.append(window.in);
  }
  return true;
}

void run_convolution(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const PreparedConvolution& prepared,
    int8_t* out) {
  const int32_t inner = arguments.weight.sizes()[3];
  const int32_t channels = prepared.in_shape.channels;
  const int32_t groups = inner == 0 ? 0 : channels / inner;
  KERNEL_CHECK(
      ctx,
      groups > 0 && channels == groups * inner && prepared.out_shape.channels % groups == 0,
      InvalidArgument,
      ,
      "weight is not [out, height, width, in / groups]");
  convolution(
      prepared.parameters,
      prepared.in_shape,
      arguments.input.const_data_ptr<int8_t>(),
      groups,
      arguments.weight.const_data_ptr<int8_t>(),
      prepared.out_shape,
      out);
}

void run_depthwise(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const PreparedConvolution& prepared,
    int8_t* out) {
  const int32_t channels = prepared.in_shape.channels;
  KERNEL_CHECK(
      ctx,
      channels > 0 && arguments.depth_multiplier == prepared.out_shape.channels / channels &&
          prepared.out_shape.channels % channels == 0,
      InvalidArgument,
      ,
      "weight is not [1, height, width, in * depth_multiplier]");
  depthwise_convolution(
      prepared.parameters,
      prepared.in_shape,
      arguments.input.const_data_ptr<int8_t>(),
      arguments.weight.const_data_ptr<int8_t>(),
      prepared.out_shape,
      out);
}

void run_transpose(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const PreparedConvolution& prepared,
    int8_t* out) {
  KERNEL_CHECK(
      ctx,
      prepared.in_shape.channels == arguments.weight.sizes()[3],
      InvalidArgument,
      ,
      "weight is not [out, height, width, in]");
  transpose_convolution(
      prepared.parameters,
      prepared.in_shape,
      arguments.input.const_data_ptr<int8_t>(),
      arguments.weight.const_data_ptr<int8_t>(),
      prepared.out_shape,
      out);
}

} // namespace torch::executor::native::cortex_m
