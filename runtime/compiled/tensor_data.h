#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/tensor_shape_dynamism.h>

namespace executorch::runtime::internal {

/// The known part of a tensor when a program is compiled: its shape, or the largest one that it may
/// have.
struct TensorShape {
  aten::ScalarType dtype;
  size_t dim;
  size_t numel;
  const int32_t* sizes;
  const uint8_t* dim_order;
  const int32_t* strides;
};

/**
 * A tensor with the memory layout of TensorImpl, whose fields are private: it can be a constant in
 * flash, and a few stores create it elsewhere.
 */
struct [[gnu::may_alias]] TensorData {
  const int32_t* sizes;
  const uint8_t* dim_order;
  const int32_t* strides;
  void* data;
  ssize_t dim;
  ssize_t numel;
  size_t numel_bound;
  aten::ScalarType dtype;
  TensorShapeDynamism dynamism;
  uint8_t device[2];

  /**
   * @param[in] shape Its shape.
   */
  constexpr TensorData(const TensorShape& shape, const void* elements)
      : sizes(shape.sizes),
        dim_order(shape.dim_order),
        strides(shape.strides),
        data(const_cast<void*>(elements)),
        dim(static_cast<ssize_t>(shape.dim)),
        numel(static_cast<ssize_t>(shape.numel)),
        numel_bound(shape.numel),
        dtype(shape.dtype),
        dynamism(TensorShapeDynamism::STATIC),
        device{} {}
  TensorData(const TensorShape& shape, void* elements, int32_t* own_shape)
      : TensorData(shape, elements) {
    for (size_t i = 0; i < shape.dim; ++i) {
      own_shape[i] = shape.sizes[i];
      own_shape[shape.dim + i] = shape.strides[i];
    }
    sizes = own_shape;
    strides = own_shape + shape.dim;
    dynamism = TensorShapeDynamism::DYNAMIC_BOUND;
  }

  aten::Tensor tensor() const {
    return aten::Tensor(reinterpret_cast<aten::TensorImpl*>(const_cast<TensorData*>(this)));
  }
};
static_assert(sizeof(TensorData) == sizeof(aten::TensorImpl));

} // namespace executorch::runtime::internal
