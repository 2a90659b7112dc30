#pragma once

#include <optional>

#include "kernels/util/checks.h"

/// Optional tensors of an operator: null if missing.
namespace torch::executor::native {

/// The tensor of an optional argument, which outlives the pointer.
inline const Tensor* tensor_or_null(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

/// The elements of a tensor of float32.
inline const float* data_or_null(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->const_data_ptr<float>();
}

/// Returns whether a tensor has a dtype and sizes; true for null.
inline bool is_like(const Tensor* tensor, ScalarType dtype, ArrayRef<SizesType> sizes) {
  return tensor == nullptr ||
      (tensor->scalar_type() == dtype && same_sizes(tensor->sizes(), sizes));
}

/// Returns whether a tensor is contiguous, or null. Fails the context (NotSupported) otherwise.
template <class S>
bool check_contiguous_or_null(KernelRuntimeContext& ctx, const Tensor* tensor) {
  return tensor == nullptr || check_contiguous<S>(ctx, *tensor);
}

} // namespace torch::executor::native
