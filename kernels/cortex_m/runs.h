#pragma once

#include "kernels/util/elementwise.h"

namespace torch::executor::native::cortex_m {

/// Elements of an output in memory order, and the corresponding elements of up to two inputs: rows
/// of `count` elements each.
struct Rows {
  /// The offsets of the inputs, the strides between adjacent elements, and between rows.
  int32_t offsets[2];
  int32_t steps[2];
  int32_t row_steps[2];
  size_t out_offset;
  size_t count;
  size_t rows;
};

/// Stores what `compute` returns for the elements of two inputs.
template <class T, class Compute>
void each_pair(const Rows& rows, const T* a, const T* b, T* out, const Compute& compute) {
  a += rows.offsets[0];
  b += rows.offsets[1];
  out += rows.out_offset;
  for (size_t row = rows.rows; row > 0; --row) {
    for (size_t i = 0; i < rows.count; ++i) {
      const auto index = static_cast<int32_t>(i);
      *out++ = compute(a[index * rows.steps[0]], b[index * rows.steps[1]]);
    }
    a += rows.row_steps[0];
    b += rows.row_steps[1];
  }
}

/// Does the same as each_rows(), for tensors whose shapes or dim orders differ. It is not inlined,
/// because a loop nest takes much stack.
template <size_t kInputs, class Go>
__attribute__((noinline)) void each_nest_rows(
    KernelRuntimeContext& ctx,
    const Tensor* const (&inputs)[kInputs],
    const Tensor& out,
    const Go& go) {
  LoopNest nest;
  if (!nest.init(ctx, out, inputs, kInputs)) {
    return;
  }
  do {
    Rows rows = {};
    for (size_t i = 0; i < kInputs; ++i) {
      rows.offsets[i] = nest.offset(i);
      rows.steps[i] = nest.stride(i);
      rows.row_steps[i] = nest.row_stride(i);
    }
    rows.out_offset = nest.out_offset();
    rows.count = nest.size();
    rows.rows = nest.rows();
    go(rows);
  } while (nest.next_rows());
}

/// Gives `out` the shape that the inputs broadcast to, and calls `go(rows)` for all elements of
/// `out`: once if the tensors have one shape and dim order, or one is a number.
template <class S, size_t kInputs, class Go>
void each_rows(
    KernelRuntimeContext& ctx,
    const Tensor* const (&inputs)[kInputs],
    Tensor& out,
    Go&& go) {
  static_assert(kInputs <= 2);
  constexpr bool kHasNest = S::has(Variant::Broadcast) || S::has(Variant::DimOrder);
  bool is_flat = internal::flat<S>(out, inputs, kInputs);
  int32_t steps[] = {1, 1};
  if constexpr (kInputs == 2 && S::has(Variant::Broadcast)) {
    // An input of one element repeats it beside one that has the output's shape.
    for (size_t i = 0; i < kInputs && !is_flat; ++i) {
      const bool is_number = inputs[i]->numel() == 1 && inputs[i]->dim() <= out.dim();
      if (is_number && internal::flat<S>(out, inputs + 1 - i, 1)) {
        steps[i] = 0;
        is_flat = true;
      }
    }
  }
  if constexpr (kHasNest || S::has(Variant::DynamicShape)) {
    if (!is_flat) {
      Shape sizes(inputs[0]->sizes());
      if constexpr (kInputs == 2) {
        if (!broadcast_sizes(ctx, inputs[0]->sizes(), inputs[1]->sizes(), sizes)) {
          return;
        }
      }
      if (!shape_out<S>(ctx, out, sizes)) {
        return;
      }
      is_flat = internal::flat<S>(out, inputs, kInputs);
    }
  }
  if constexpr (kHasNest) {
    if (!is_flat) {
      each_nest_rows(ctx, inputs, out, go);
      return;
    }
  }
  KERNEL_CHECK(ctx, is_flat, InvalidArgument, , "The tensors' shapes differ");
  go(Rows{{0, 0}, {steps[0], steps[1]}, {0, 0}, 0, static_cast<size_t>(out.numel()), 1});
}

} // namespace torch::executor::native::cortex_m
