#pragma once

#include "kernels/cortex_m/requantize.h"
#include "kernels/cortex_m/softmax.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Checks the arguments of a softmax: finds what the dim is in memory and the input's scale.
bool check_softmax(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    int64_t dim,
    int64_t input_zero_point,
    int64_t output_zero_point,
    int64_t input_multiplier,
    int64_t input_shift,
    const Tensor& out,
    Split& split,
    int32_t& zero_point,
    float& scale);

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
  Split split;
  int32_t zero_point = 0;
  float scale = 0;
  if (check_softmax(
          ctx,
          input,
          dim,
          input_zero_point,
          output_zero_point,
          input_multiplier,
          input_shift,
          out,
          split,
          zero_point,
          scale) &&
      shape_out<S>(ctx, out, input.sizes())) {
    const int8_t* const from = input.const_data_ptr<int8_t>();
    int8_t* const to = out.mutable_data_ptr<int8_t>();
    for (size_t i = 0; i < split.outer; ++i) {
      for (size_t j = 0; j < split.inner; ++j) {
        const size_t start = i * split.size * split.inner + j;
        softmax(from + start, to + start, split.size, split.inner, zero_point, scale);
      }
    }
  }
  return out;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
