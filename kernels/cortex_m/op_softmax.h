#pragma once

#include "kernels/cortex_m/requantize.h"
#include "kernels/cortex_m/softmax.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// What a softmax takes, in the order of its schema.
struct SoftmaxArguments {
  const Tensor& input;
  int64_t dim;
  int64_t input_zero_point;
  int64_t output_zero_point;
  int64_t input_multiplier;
  int64_t input_shift;
};

/// What a softmax computes with: what the dim is in memory, and how the input is quantized.
struct PreparedSoftmax {
  Split split;
  int32_t zero_point;
  float scale;
};

/// Checks the arguments of a softmax, and takes from them what to compute with. Fails the context
/// and returns false if they do not fit together.
bool check_softmax(
    KernelRuntimeContext& ctx,
    const SoftmaxArguments& arguments,
    const Tensor& out,
    PreparedSoftmax& prepared);

/// cortex_m::softmax.out; input and out lie in the same dim order.
template <class S>
Tensor& softmax_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    int64_t dim,
    int64_t input_zero_point,
    int64_t output_zero_point,
    int64_t input_multiplier,
    int64_t input_shift,
    int64_t /*diff_min*/,
    Tensor& out) {
  const SoftmaxArguments arguments = {
      input, dim, input_zero_point, output_zero_point, input_multiplier, input_shift};
  PreparedSoftmax prepared;
  if (check_softmax(ctx, arguments, out, prepared) && shape_out<S>(ctx, out, input.sizes())) {
    const Split& split = prepared.split;
    const int8_t* const from = input.const_data_ptr<int8_t>();
    int8_t* const to = out.mutable_data_ptr<int8_t>();
    for (size_t i = 0; i < split.outer; ++i) {
      for (size_t j = 0; j < split.inner; ++j) {
        const size_t start = i * split.size * split.inner + j;
        softmax(
            from + start, to + start, split.size, split.inner, prepared.zero_point, prepared.scale);
      }
    }
  }
  return out;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
