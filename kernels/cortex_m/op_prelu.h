#pragma once

#include "kernels/cortex_m/prelu.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// The arguments of PReLU beside its images, in the order of its schema.
struct PreluArguments {
  const Tensor& negative;
  int64_t positive;
  int64_t zero_point;
  int64_t output_zero_point;
  int64_t shift;
};

/// Checks int8 tensors of [batch, channels, ...], contiguous or channels-last, and their factors.
/// Fails the context (InvalidArgument, InvalidType, NotSupported) and returns false if they do not
/// match.
bool check_prelu(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const PreluArguments& arguments,
    const Tensor& out,
    Prelu& parameters);

/// torch_fusion::quantized_prelu.out: a factor for values not below the zero point, and one per
/// channel for values below it, both with `shift` fractional bits.
template <class S>
Tensor& prelu_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& negative,
    int64_t positive,
    int64_t zero_point,
    int64_t output_zero_point,
    int64_t shift,
    Tensor& out) {
  Prelu parameters;
  if (check_prelu(
          ctx,
          input,
          {negative, positive, zero_point, output_zero_point, shift},
          out,
          parameters) &&
      shape_out<S>(ctx, out, input.sizes())) {
    prelu(parameters, input.const_data_ptr<int8_t>(), out.mutable_data_ptr<int8_t>());
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
