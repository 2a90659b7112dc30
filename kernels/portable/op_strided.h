#pragma once

#include <optional>

#include "kernels/util/view.h"

/**
 * Operators that show a tensor's elements in another arrangement: each makes a
 * view and writes it. What does not fit fails the context (InvalidArgument).
 */
namespace torch::executor::native {

/// A view of `size` with distances `stride`, from element `storage_offset` on;
/// for contiguous tensors, as others have no elements between.
bool as_strided(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& size,
    const ArrayRef<int64_t>& stride,
    int64_t storage_offset,
    View& view);

/// Removes two dims and appends their diagonal, `offset` above the main one.
bool diagonal(KernelRuntimeContext& ctx, View& view, int64_t offset, int64_t dim1, int64_t dim2);

/// Reverses dims.
bool flip(KernelRuntimeContext& ctx, View& view, const ArrayRef<int64_t>& dims);

/// Replaces a dim by its windows of `size` elements, `step` apart, and appends the index in the
/// window.
bool unfold(KernelRuntimeContext& ctx, View& view, int64_t dim, int64_t size, int64_t step);

/// Splits the dims of [..., channels * factor^2, height, width] or, if `is_shuffled`,
/// of [..., channels, height * factor, width * factor], and gives both the same
/// six last dims: channels, height, factor, width, factor.
bool shuffle_pixels(KernelRuntimeContext& ctx, View& view, int64_t factor, bool is_shuffled);

/// The shape that pixel_shuffle gives, or pixel_unshuffle if `is_shuffled`.
Shape shuffled_sizes(const View& view, bool is_shuffled);

/// The shape of a tensor that repeats self along each dim.
bool repeat_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& repeats,
    Shape& out_sizes);

/// Fills out, which has repeat_sizes(), with copies of self.
void repeat(const Tensor& self, Tensor& out);

/// Writes self to out of its shape, its elements moved on along dims, those at
/// the end to the start; along all elements in order if there are no dims.
void roll(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& shifts,
    const ArrayRef<int64_t>& dims,
    Tensor& out);

/// aten::as_strided_copy.out
template <class S>
Tensor& as_strided_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> size,
    ArrayRef<int64_t> stride,
    std::optional<int64_t> storage_offset,
    Tensor& out) {
  View view(self);
  return as_strided(ctx, self, size, stride, storage_offset.value_or(0), view)
      ? write_view<S>(ctx, self, view, out)
      : out;
}

/// aten::diagonal_copy.out
template <class S>
Tensor& diagonal_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t offset,
    int64_t dim1,
    int64_t dim2,
    Tensor& out) {
  View view(self);
  return diagonal(ctx, view, offset, dim1, dim2) ? write_view<S>(ctx, self, view, out) : out;
}

/// aten::flip.out
template <class S>
Tensor&
flip_out(KernelRuntimeContext& ctx, const Tensor& self, ArrayRef<int64_t> dims, Tensor& out) {
  View view(self);
  return flip(ctx, view, dims) ? write_view<S>(ctx, self, view, out) : out;
}

/// aten::unfold_copy.out
template <class S>
Tensor& unfold_copy_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dimension,
    int64_t size,
    int64_t step,
    Tensor& out) {
  View view(self);
  return unfold(ctx, view, dimension, size, step) ? write_view<S>(ctx, self, view, out) : out;
}

/// aten::pixel_shuffle.out, and pixel_unshuffle.out, which takes a shuffled tensor.
template <class S, bool kIsShuffled>
Tensor& write_pixels(KernelRuntimeContext& ctx, const Tensor& self, int64_t factor, Tensor& out) {
  View from(self);
  if (!shuffle_pixels(ctx, from, factor, kIsShuffled) || !same_dtype_or_fail(ctx, self, out) ||
      !shape_out<S>(ctx, out, shuffled_sizes(from, kIsShuffled))) {
    return out;
  }
  View to(out);
  if (shuffle_pixels(ctx, to, factor, !kIsShuffled)) {
    copy_view(from, to);
  }
  return out;
}
template <class S>
constexpr auto& pixel_shuffle_out = write_pixels<S, false>;
template <class S>
constexpr auto& pixel_unshuffle_out = write_pixels<S, true>;

/// aten::repeat.out
template <class S>
Tensor&
repeat_out(KernelRuntimeContext& ctx, const Tensor& self, ArrayRef<int64_t> repeats, Tensor& out) {
  Shape out_sizes;
  if (same_dtype_or_fail(ctx, self, out) && repeat_sizes(ctx, self, repeats, out_sizes) &&
      shape_out<S>(ctx, out, out_sizes)) {
    repeat(self, out);
  }
  return out;
}

/// aten::roll.out
template <class S>
Tensor& roll_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> shifts,
    ArrayRef<int64_t> dims,
    Tensor& out) {
  if (same_dtype_or_fail(ctx, self, out) && shape_out<S>(ctx, out, self.sizes())) {
    roll(ctx, self, shifts, dims, out);
  }
  return out;
}

} // namespace torch::executor::native
