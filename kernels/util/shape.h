#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/checks.h"

namespace torch::executor::native {

/// A contiguous tensor seen as [outer, size, inner] around one of its dims.
struct Split {
  size_t outer;
  size_t size;
  size_t inner;
};

/// Splits a shape at a dim; a zero-dim shape is [1, 1, 1].
Split split_at(ArrayRef<SizesType> sizes, size_t dim);

/// Splits a tensor at a dim in its memory order.
Split split_in_memory(const Tensor& tensor, size_t dim);

/// Splits a tensor of any dim order at a dim; of contiguous ones in an image that has no others.
template <class S>
Split split_tensor(const Tensor& tensor, size_t dim) {
  if constexpr (S::has(Variant::DimOrder)) {
    return split_in_memory(tensor, dim);
  } else {
    return split_at(tensor.sizes(), dim);
  }
}

/// A shape under construction.
struct Shape {
  SizesType sizes[kMaxDims];
  size_t dims = 0;

  Shape() = default;
  explicit Shape(ArrayRef<SizesType> from) {
    for (const SizesType size : from) {
      append(size);
    }
  }
  operator ArrayRef<SizesType>() const {
    return ArrayRef<SizesType>(sizes, dims);
  }
  /// Appends a size; ignored beyond kMaxDims, as no tensor has that many.
  void append(SizesType size) {
    if (dims < kMaxDims) {
      sizes[dims++] = size;
    }
  }
};

/**
 * Returns the shape `size` of a view of self, in which one -1 is replaced to match the number of
 * self's elements.
 */
bool infer_view(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& size,
    Shape& out_sizes);

} // namespace torch::executor::native
