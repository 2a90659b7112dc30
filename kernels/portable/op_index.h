#pragma once

#include <optional>

#include "kernels/portable/op_copy.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/indices.h"
#include "kernels/util/view.h"

namespace torch::executor::native {

/**
 * The elements that tensors in the brackets of self[...] select. Long or Int tensors are indices of
 * one dim each. Bool or Byte tensors are masks, which select the elements of as many dims as they
 * have where they are true. They broadcast together; their dims replace the first of the dims that
 * they index, or come first if dims without an index are in between.
 *
 * Functions with a parameter kMasks omit masks if it is false: then they fail the context
 * (InvalidType).
 */
class Indexing {
 public:
  /**
   * @param[in] self The tensor that is indexed; must outlive this.
   * @param[in] indices Contiguous; none for a dim that stays whole.
   *
   * @returns false after failing the context (InvalidArgument, InvalidType,
   *     NotSupported) for what does not fit.
   */
  template <class S>
  bool start(
      KernelRuntimeContext& ctx,
      const View& self,
      const ArrayRef<std::optional<Tensor>>& indices) {
    if constexpr (S::has(Variant::DimOrder)) {
      for (const std::optional<Tensor>& index : indices) {
        if (index.has_value() && !contiguous_or_fail(ctx, *index)) {
          return false;
        }
      }
    }
    return init<S::has(Variant::Masks)>(ctx, self, indices);
  }

  /// The shape of self[indices].
  const Shape& sizes() const {
    return walk_.shape;
  }

  /**
   * Calls body(char* self_element, int32_t self_stride, char* result_element,
   * int32_t result_stride, size_t count) for all elements of the result, some at
   * a time; strides are in elements.
   *
   * @param[in] result A view of the result's shape.
   */
  template <bool kMasks, class Body>
  void run(KernelRuntimeContext& ctx, const View& result, Body&& body) {
    begin(result);
    for (char* to = result.data; left_ > 0; to = next(result, to)) {
      char* const from = chosen<kMasks>(ctx);
      if (from == nullptr) {
        return;
      }
      body(from, from_stride_, to, to_stride_, run_);
    }
  }

 private:
  // A mask's true elements are looked for in order, from where the last was.
  struct Mask {
    int32_t ordinal;
    int32_t place;
  };

  template <bool kMasks>
  bool
  init(KernelRuntimeContext& ctx, const View& self, const ArrayRef<std::optional<Tensor>>& indices);
  void begin(const View& result);
  // The result's element after `to`.
  char* next(const View& result, char* to);
  // The element of self for the position; null after failing the context
  // (InvalidArgument) for an index out of range.
  template <bool kMasks>
  char* chosen(KernelRuntimeContext& ctx);
  int32_t masked_offset(size_t k);

  const View* self_;
  const Tensor* indices_[kMaxDims];
  Mask masks_[kMaxDims];
  // The dim of self that an index replaces, or the first of those of a mask.
  uint8_t dims_[kMaxDims];
  size_t count_ = 0;
  Shape joint_;
  // The position of the joint dims in the result.
  size_t joint_dim_ = 0;
  // self in the result's shape: joint dims have stride 0.
  View walk_;
  SizesType position_[kMaxDims];
  // Dims before those that a run covers.
  size_t outer_;
  size_t run_;
  int32_t from_stride_;
  int32_t to_stride_;
  // Runs left.
  int32_t left_;
};

/// Writes self[indices] to a result, or a result to self[indices] if `is_write`.
template <bool kMasks>
void copy_indexed(KernelRuntimeContext& ctx, Indexing& indexing, const View& result, bool is_write);

/// aten::index.Tensor_out
template <class S>
Tensor& index_tensor_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<std::optional<Tensor>> indices,
    Tensor& out) {
  constexpr bool kMasks = S::has(Variant::Masks);
  const View from(self);
  Indexing indexing;
  if (same_dtype_or_fail(ctx, self, out) && indexing.start<S>(ctx, from, indices) &&
      shape_out<S>(ctx, out, indexing.sizes())) {
    copy_indexed<kMasks>(ctx, indexing, View(out), false);
  }
  return out;
}

/// aten::index_put_: writes values to the selected elements, or adds them.
template <class S>
Tensor& index_put_inplace(
    KernelRuntimeContext& ctx,
    Tensor& self,
    ArrayRef<std::optional<Tensor>> indices,
    const Tensor& values,
    bool accumulate) {
  constexpr bool kMasks = S::has(Variant::Masks);
  const View to(self);
  View from(values);
  Indexing indexing;
  if (!same_dtype_or_fail(ctx, self, values) || !indexing.start<S>(ctx, to, indices) ||
      !broadcast_view(ctx, from, indexing.sizes())) {
    return self;
  }
  if constexpr (S::has(Variant::Option)) {
    if (accumulate) {
      dispatch<StoredTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        indexing.run<kMasks>(
            ctx,
            from,
            [](char* place, int32_t stride, char* value, int32_t value_stride, size_t count) {
              T* sum = reinterpret_cast<T*>(place);
              const T* added = reinterpret_cast<const T*>(value);
              for (; count > 0; --count, sum += stride, added += value_stride) {
                *sum = wrapping_sum(*sum, *added);
              }
            });
      });
      return self;
    }
  }
  copy_indexed<kMasks>(ctx, indexing, from, true);
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
    copy_same<S>(ctx, self, out);
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

/// Returns the number of nonzero elements, and writes their indices to out, [count, dims] of Long,
/// if it is not null.
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
  if (!dtype_or_fail(ctx, out, ScalarType::Long, "out")) {
    return out;
  }
  const SizesType sizes[] = {
      find_nonzero<S>(ctx, self, nullptr), static_cast<SizesType>(self.dim())};
  if (ctx.failure_state() == Error::Ok && check_contiguous<S>(ctx, out) &&
      shape_out<S>(ctx, out, ArrayRef<SizesType>(sizes, 2))) {
    find_nonzero<S>(ctx, self, &out);
  }
  return out;
}

} // namespace torch::executor::native
