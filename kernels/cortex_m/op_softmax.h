#pragma once

#include "kernels/cortex_m/requantize.h"
#include "kernels/cortex_m/softmax.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// The arguments of a softmax, in the order of its schema.
struct SoftmaxArguments {
  const Tensor& input;
  int64_t dim;
  int64_t input_zero_point;
  int64_t output_zero_point;
  int64_t input_multiplier;
  int64_t input_shift;
};

/// The parameters of a softmax: its dim, and the quantization of the input.
struct PreparedSoftmax {
  int32_t dim;
  int32_t zero_point;
  float scale;
};

/// Checks the arguments of a softmax, and derives the parameters of the computation. Fails the
/// context and returns false if they do not match.
bool check_softmax(
    KernelRuntimeContext& ctx,
    const SoftmaxArguments& arguments,
    const Tensor& out,
    PreparedSoftmax& prepared);

/// Calls a function with each row of a dim, the address of its results, the number of its values,
/// and their stride.
template <class S, class Function>
void each_row(const Tensor& input, int32_t dim, Tensor& out, Function function) {
  const Split split = split_tensor<S>(input, static_cast<size_t>(dim));
  const int8_t* from = input.const_data_ptr<int8_t>();
  int8_t* to = out.mutable_data_ptr<int8_t>();
  const size_t block = split.size * split.inner;
  for (size_t i = 0; i < split.outer; ++i, from += block, to += block) {
    for (size_t j = 0; j < split.inner; ++j) {
      function(from + j, to + j, split.size, split.inner);
    }
  }
}

/// cortex_m::softmax.out; input and out have the same dim order.
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
    each_row<S>(
        input, prepared.dim, out, [&](const int8_t* from, int8_t* to, size_t count, size_t step) {
          softmax(from, to, count, step, prepared.zero_point, prepared.scale);
        });
  }
  return out;
}

/// Checks int8 tensors and the table of a softmax, and determines the dim. Fails the context
/// (InvalidArgument, InvalidType) and returns a dim below zero if they do not match.
int32_t check_softmax_by_table(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& exponentials,
    int64_t dim,
    const Tensor& out);

/// torch_fusion::quantized_softmax.out; input and out have the same dim order, and out begins at
/// input's address, before it, or after all of it.
template <class S>
Tensor& softmax_by_table_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& exponentials,
    int64_t dim,
    Tensor& out) {
  const int32_t index = check_softmax_by_table(ctx, input, exponentials, dim, out);
  if (index < 0 || !shape_out<S>(ctx, out, input.sizes())) {
    return out;
  }
  const int16_t* const table = exponentials.const_data_ptr<int16_t>();
  each_row<S>(input, index, out, [&](const int8_t* from, int8_t* to, size_t count, size_t step) {
    softmax_by_table(from, to, count, step, table);
  });
  return out;
}

/// The elements of a softmax's rows that are left out.
struct RowMasks {
  const int8_t* masks;
  size_t outer;   // Groups of masks.
  size_t repeats; // Times that a group's masks follow each other.
  size_t inner;   // Masks of a group.
  size_t count;   // Values of a row, and of its mask.
};

/// Checks the masks of a softmax of contiguous tensors that check_softmax_by_table() has checked.
/// Fails the context (InvalidArgument, InvalidType) and returns false if they do not fit.
bool check_row_masks(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& mask,
    int64_t repeats,
    const Tensor& out,
    RowMasks& masks);

/// torch_fusion::quantized_masked_softmax.out, contiguous, over the last dim; `mask` has [outer,
/// inner, count] elements, which are -1, or 0 for excluded values: the masks of rows [..., outer,
/// repeats, inner, count]. The memory is as in softmax_by_table_out(), and out must not overlap
/// mask.
template <class S>
Tensor& masked_softmax_by_table_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& exponentials,
    const Tensor& mask,
    int64_t repeats,
    Tensor& out) {
  RowMasks masks;
  if (check_softmax_by_table(ctx, input, exponentials, -1, out) < 0 ||
      !check_contiguous<S>(ctx, input, mask, out) ||
      !check_row_masks(ctx, input, mask, repeats, out, masks) ||
      !shape_out<S>(ctx, out, input.sizes())) {
    return out;
  }
  const int8_t* from = input.const_data_ptr<int8_t>();
  int8_t* to = out.mutable_data_ptr<int8_t>();
  const int16_t* const table = exponentials.const_data_ptr<int16_t>();
  const size_t block = masks.inner * masks.count;
  const size_t blocks = static_cast<size_t>(input.numel()) / block;
  for (size_t i = 0; i < blocks; ++i) {
    const int8_t* row = masks.masks + i / masks.repeats % masks.outer * block;
    for (size_t j = 0; j < masks.inner; ++j) {
      masked_softmax_by_table(from, to, masks.count, table, row);
      from += masks.count;
      to += masks.count;
      row += masks.count;
    }
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
