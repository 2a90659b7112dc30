#pragma once

#include "kernels/cortex_m/pad.h"
#include "kernels/cortex_m/requantize.h"
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
