#pragma once

#include "kernels/portable/op_full.h"
#include "kernels/util/view.h"

/**
 * Padding: `padding` has the numbers of elements before and after, of the last
 * dim, then of the one before it, and so on; negative ones remove elements.
 */
namespace torch::executor::native {

/// The shape of a padded tensor; fails the context (InvalidArgument) and returns
/// false if there is none.
bool pad_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& padding,
    Shape& out_sizes);

/// Crops views of self and out to their common part.
void cut_to_common(const ArrayRef<int64_t>& padding, View& from, View& to);

/// Does the same as pad_sizes(), for reflection and replication: padding of `count` dims, for self
/// with one or two more dims, some elements, and for a reflection more than are added.
bool mirror_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& padding,
    size_t count,
    bool reflects,
    Shape& out_sizes);

/// Writes self to out, and around it its mirror image, or the elements at its edges.
void mirror(const Tensor& self, const ArrayRef<int64_t>& padding, bool reflects, Tensor& out);

/// aten::constant_pad_nd.out
template <class S>
Tensor& constant_pad_nd_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> pad,
    const Scalar& value,
    Tensor& out) {
  Shape out_sizes;
  if (!same_dtype_or_fail(ctx, self, out) || !pad_sizes(ctx, self, pad, out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  fill<S>(ctx, value, out);
  View from(self);
  View to(out);
  cut_to_common(pad, from, to);
  copy_view(from, to);
  return out;
}

/// aten::reflection_pad1d.out to replication_pad3d.out.
template <class S, size_t kDims, bool kReflects>
Tensor&
mirror_out(KernelRuntimeContext& ctx, const Tensor& self, ArrayRef<int64_t> padding, Tensor& out) {
  Shape out_sizes;
  if (same_dtype_or_fail(ctx, self, out) &&
      mirror_sizes(ctx, self, padding, kDims, kReflects, out_sizes) &&
      shape_out<S>(ctx, out, out_sizes)) {
    mirror(self, padding, kReflects, out);
  }
  return out;
}

template <class S>
constexpr auto& reflection_pad1d_out = mirror_out<S, 1, true>;
template <class S>
constexpr auto& reflection_pad2d_out = mirror_out<S, 2, true>;
template <class S>
constexpr auto& reflection_pad3d_out = mirror_out<S, 3, true>;
template <class S>
constexpr auto& replication_pad1d_out = mirror_out<S, 1, false>;
template <class S>
constexpr auto& replication_pad2d_out = mirror_out<S, 2, false>;
template <class S>
constexpr auto& replication_pad3d_out = mirror_out<S, 3, false>;

} // namespace torch::executor::native
