#pragma once

#include "kernels/cortex_m/pad.h"
#include "kernels/cortex_m/requantize.h"
#include "kernels/cortex_m/transpose.h"
#include "kernels/util/view.h"

namespace torch::executor::native::cortex_m {

/// cortex_m::transpose.out: any dtype and dim order.
template <class S>
Tensor&
transpose_out(KernelRuntimeContext& ctx, const Tensor& input, ArrayRef<int64_t> perm, Tensor& out) {
  View view;
  return permute(ctx, View(input), perm, view)
      ? write_view<S>(ctx, input, view, out, CopyOrder::LongestFirst)
      : out;
}

/// Returns how many matrices of a shape a tensor of int8 and its transposition are. Fails the
/// context and returns 0 if they are none.
int32_t count_matrices(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    int64_t rows,
    int64_t columns,
    int64_t unit,
    const Tensor& out);

/// torch_fusion::transposed.out: in memory. Its shapes are static.
template <class S>
Tensor& transposed_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<int64_t> /*sizes*/,
    int64_t /*orders*/,
    int64_t rows,
    int64_t columns,
    int64_t unit,
    Tensor& out) {
  const int32_t batch = count_matrices(ctx, input, rows, columns, unit, out);
  if (batch > 0) {
    transpose(
        input.const_data_ptr<int8_t>(),
        batch,
        static_cast<int32_t>(rows),
        static_cast<int32_t>(columns),
        static_cast<int32_t>(unit),
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// Checks a padding and computes the output's shape, for tensors of up to four dims in the same dim
/// order, contiguous or channels last.
bool check_pad(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const ArrayRef<int64_t>& pre_pad,
    const ArrayRef<int64_t>& post_pad,
    int64_t pad_value,
    const Tensor& out,
    PadShape& shape,
    Shape& sizes);

/// cortex_m::pad.out. `pre_pad` and `post_pad` have four elements, in memory order.
template <class S>
Tensor& pad_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<int64_t> pre_pad,
    ArrayRef<int64_t> post_pad,
    int64_t pad_value,
    Tensor& out) {
  PadShape shape;
  Shape sizes;
  if (check_pad(ctx, input, pre_pad, post_pad, pad_value, out, shape, sizes) &&
      shape_out<S>(ctx, out, sizes)) {
    pad(shape,
        static_cast<int8_t>(pad_value),
        input.const_data_ptr<int8_t>(),
        out.mutable_data_ptr<int8_t>());
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
