#pragma once

#include <optional>

#include "kernels/util/dtypes.h"
#include "kernels/util/indices.h"
#include "kernels/util/view.h"

namespace torch {
namespace executor {
namespace native {

/**
 * What tensors in the brackets of self[...] choose: Long or Int ones indices of
 * one dim each, Bool or Byte ones, masks, those places of as many dims as they
 * have where they are true. They broadcast together; their dims replace the
 * first of those that they index, or come first of all if dims without an index
 * lie between.
 */
class Indexing {
 public:
  /**
   * @param[in] indices Contiguous; none for a dim that stays whole.
   * @param[out] result_sizes The shape of self[indices].
   *
   * @returns false after failing the context (InvalidArgument, InvalidType,
   *     NotSupported) for what does not fit.
   */
  bool init(
      KernelRuntimeContext& ctx,
      const Tensor& self,
      const ArrayRef<std::optional<Tensor>>& indices,
      Shape& result_sizes);

  /**
   * Calls body(int32_t self_offset, int32_t self_stride, int32_t result_offset,
   * int32_t result_stride, size_t count) for all elements of the result, some at
   * a time.
   *
   * @param[in] self A view of self.
   * @param[in] result A view of the result's shape.
   *
   * @returns false after failing the context (InvalidArgument) for an index out
   *     of range.
   */
  template <class Body>
  bool run(KernelRuntimeContext& ctx, const View& self, const View& result, Body&& body) {
    LoopNest rest;
    start(self, result, rest);
    if (rest.size() == 0) {
      return true;
    }
    int32_t from = 0;
    int32_t to = 0;
    while (next(ctx, self, result, from, to)) {
      do {
        body(
            from + rest.offset(0),
            rest.stride(0),
            to + rest.offset(1),
            rest.stride(1),
            rest.size());
      } while (rest.next());
    }
    return ctx.failure_state() == Error::Ok;
  }

 private:
  // A mask's true elements are looked for in order, from where the last was.
  struct Mask {
    int32_t ordinal;
    int32_t place;
  };

  bool add(KernelRuntimeContext& ctx, const Tensor& index, size_t position);
  void start(const View& self, const View& result, LoopNest& rest);
  bool
  next(KernelRuntimeContext& ctx, const View& self, const View& result, int32_t& from, int32_t& to);

  const Tensor* indices_[kMaxDims];
  Mask masks_[kMaxDims];
  // The dim of self that an index replaces, or the first of those of a mask.
  uint8_t dims_[kMaxDims];
  size_t count_ = 0;
  // Bit i stands for dim i of self.
  uint32_t indexed_ = 0;
  Shape joint_;
  // Where the joint dims are in the result.
  size_t joint_dim_ = 0;
  int32_t position_ = 0;
};

/// Writes self[indices] to out.
void index_copy(KernelRuntimeContext& ctx, Indexing& indexing, const Tensor& self, Tensor& out);

/// Writes values, which broadcast to the result's shape, to their places in out.
void index_write(KernelRuntimeContext& ctx, Indexing& indexing, const View& values, Tensor& out);

/// aten::index.Tensor_out
template <class S>
Tensor& index_tensor_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<std::optional<Tensor>> indices,
    Tensor& out) {
  Indexing indexing;
  Shape out_sizes;
  if (same_dtype_or_fail(ctx, self, out) && indexing.init(ctx, self, indices, out_sizes) &&
      shape_out<S>(ctx, out, out_sizes)) {
    index_copy(ctx, indexing, self, out);
  }
  return out;
}

/// aten::index_put_: writes values to their places, or adds them.
template <class S>
Tensor& index_put_inplace(
    KernelRuntimeContext& ctx,
    Tensor& self,
    ArrayRef<std::optional<Tensor>> indices,
    const Tensor& values,
    bool accumulate) {
  Indexing indexing;
  Shape sizes;
  View from(values);
  if (!same_dtype_or_fail(ctx, self, values) || !indexing.init(ctx, self, indices, sizes) ||
      !broadcast_view(ctx, from, sizes)) {
    return self;
  }
  if (!accumulate) {
    index_write(ctx, indexing, from, self);
    return self;
  }
  dispatch<StoredTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const data = self.mutable_data_ptr<T>();
    const T* const added = values.const_data_ptr<T>();
    indexing.run(
        ctx,
        View(self),
        from,
        [&](int32_t place, int32_t stride, int32_t other, int32_t other_stride, size_t count) {
          for (; count > 0; --count, place += stride, other += other_stride) {
            data[place] = wrapping_sum(data[place], added[other]);
          }
        });
  });
  return self;
}

/// aten::index_put.out
template <class S>
Tensor& index_put_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<std::optional<Tensor>> indices,
    const Tensor& values,
    bool accumulate,
    Tensor& out) {
  if (same_dtype_or_fail(ctx, self, out) && shape_out<S>(ctx, out, self.sizes())) {
    copy_view(View(self), View(out));
    index_put_inplace<S>(ctx, out, indices, values, accumulate);
  }
  return out;
}

/// Views of self and mask of the shape they broadcast to; false after failing
/// the context if they do not, or mask is neither Bool nor Byte.
bool broadcast_mask(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& mask,
    View& self_view,
    View& mask_view);

/// The number of true elements.
int32_t count_true(const View& mask);

/// Copies those elements of a view where mask is true to the start of a dense
/// array of `count` elements, or from there if `is_scatter`.
void copy_masked(const View& view, const View& mask, char* dense, int32_t count, bool is_scatter);

/// aten::masked_select.out
template <class S>
Tensor&
masked_select_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& mask, Tensor& out) {
  View from;
  View where;
  if (!same_dtype_or_fail(ctx, self, out) || !broadcast_mask(ctx, self, mask, from, where)) {
    return out;
  }
  const SizesType count = count_true(where);
  if (shape_out<S>(ctx, out, ArrayRef<SizesType>(&count, 1))) {
    copy_masked(from, where, static_cast<char*>(out.mutable_data_ptr()), count, false);
  }
  return out;
}

/// aten::masked_scatter.out: the elements of a contiguous source, in order.
template <class S>
Tensor& masked_scatter_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& mask,
    const Tensor& source,
    Tensor& out) {
  View from;
  View where;
  if (!same_dtype_or_fail(ctx, self, out) || !same_dtype_or_fail(ctx, source, out) ||
      !check_contiguous<S>(ctx, source) || !broadcast_mask(ctx, self, mask, from, where) ||
      !shape_out<S>(ctx, out, from.shape)) {
    return out;
  }
  const int32_t count = count_true(where);
  KERNEL_CHECK(
      ctx,
      count <= source.numel(),
      InvalidArgument,
      out,
      "source has %d elements, mask %d true ones",
      static_cast<int>(source.numel()),
      static_cast<int>(count));
  const View to(out);
  copy_view(from, to);
  copy_masked(to, where, static_cast<char*>(source.mutable_data_ptr()), count, true);
  return out;
}

/// The number of elements other than zero, whose places are then written to out, [count, dims] of
/// Long, if it is not null.
template <class S>
int32_t find_nonzero(KernelRuntimeContext& ctx, const Tensor& self, Tensor* out) {
  const View view(self);
  int32_t rows = 0;
  const int32_t end = out == nullptr ? INT32_MAX : out->sizes()[0];
  dispatch<StoredTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const elements = self.const_data_ptr<T>();
    SizesType position[kMaxDims] = {};
    int32_t offset = 0;
    for (int32_t left = static_cast<int32_t>(self.numel()); left > 0; --left) {
      if (convert<bool>(elements[offset]) && rows < end) {
        if (out != nullptr) {
          int64_t* const row =
              out->mutable_data_ptr<int64_t>() + static_cast<size_t>(rows) * view.shape.dims;
          for (size_t i = 0; i < view.shape.dims; ++i) {
            row[i] = position[i];
          }
        }
        ++rows;
      }
      offset = step(view, position, offset);
    }
  });
  return rows;
}

/// aten::nonzero.out
template <class S>
Tensor& nonzero_out(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  KERNEL_CHECK(ctx, out.scalar_type() == ScalarType::Long, InvalidType, out, "out is not Long");
  const SizesType sizes[] = {
      find_nonzero<S>(ctx, self, nullptr), static_cast<SizesType>(self.dim())};
  if (ctx.failure_state() == Error::Ok && check_contiguous<S>(ctx, out) &&
      shape_out<S>(ctx, out, ArrayRef<SizesType>(sizes, 2))) {
    find_nonzero<S>(ctx, self, &out);
  }
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
