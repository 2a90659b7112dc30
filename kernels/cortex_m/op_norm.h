#pragma once

#include <optional>

#include "kernels/cortex_m/norm.h"
#include "kernels/cortex_m/requantize.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// The arguments of a normalization beside its images, in the order of its schema.
struct NormArguments {
  const Tensor& weight;
  const Tensor& bias;
  std::optional<int64_t> center;
  double epsilon;
  int64_t shift;
};

/// Checks int8 tensors and the parameters of a normalization, and derives the parameters of the
/// computation, as if all channels were one group of one pixel. Fails the context (InvalidArgument,
/// InvalidType) and returns false if they do not match.
bool check_norm(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const NormArguments& arguments,
    const Tensor& out,
    Normalization& norm);

/// Makes groups of the channels of a tensor [batch, channels, ...], in memory in this order or with
/// the channels last. Fails the context and returns false for another one (NotSupported), or if
/// there are no such groups (InvalidArgument).
bool split_channels(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& out,
    int64_t groups,
    Normalization& norm);

/// torch_fusion::quantized_layer_norm.out, contiguous: over the last elements, as many as there are
/// weights. `center`: null for the mean; RMSNorm has the input's zero point.
template <class S>
Tensor& layer_norm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const Tensor& bias,
    std::optional<int64_t> center,
    double epsilon,
    int64_t shift,
    Tensor& out) {
  const NormArguments arguments = {weight, bias, center, epsilon, shift};
  Normalization norm;
  if (!check_norm(ctx, input, arguments, out, norm) || !check_contiguous<S>(ctx, input, out) ||
      !shape_out<S>(ctx, out, input.sizes())) {
    return out;
  }
  const int8_t* from = input.const_data_ptr<int8_t>();
  int8_t* to = out.mutable_data_ptr<int8_t>();
  const auto count = static_cast<int32_t>(input.numel());
  for (int32_t i = 0; count - i >= norm.channels; i += norm.channels) {
    normalize(norm, from + i, to + i);
  }
  return out;
}

/// torch_fusion::quantized_group_norm.out: normalizes groups of the channels of [batch, channels,
/// ...], including all trailing dimensions.
template <class S>
Tensor& group_norm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const Tensor& bias,
    int64_t groups,
    double epsilon,
    int64_t shift,
    Tensor& out) {
  const NormArguments arguments = {weight, bias, std::nullopt, epsilon, shift};
  Normalization norm;
  if (!check_norm(ctx, input, arguments, out, norm) || !shape_out<S>(ctx, out, input.sizes()) ||
      !split_channels(ctx, input, out, groups, norm)) {
    return out;
  }
  const int8_t* from = input.const_data_ptr<int8_t>();
  int8_t* to = out.mutable_data_ptr<int8_t>();
  const int32_t channels = input.sizes()[1];
  for (int32_t n = 0; n < input.sizes()[0]; ++n) {
    Normalization group = norm;
    for (int32_t first = 0; first < channels; first += norm.channels) {
      normalize(group, from + first * norm.channel_step, to + first * norm.channel_step);
      group.weight += norm.channels;
      group.bias += norm.channels;
    }
    from += channels * norm.pixels;
    to += channels * norm.pixels;
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
