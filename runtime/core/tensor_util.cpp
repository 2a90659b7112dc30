#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include "runtime/core/tensor_view.h"

namespace executorch::runtime {

using executorch::aten::DimOrderType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

Error get_dim_order(const Tensor& tensor, DimOrderType* out_dim_order, size_t out_dim_order_size) {
  const auto dim_order = tensor.dim_order();
  ET_CHECK_OR_RETURN_ERROR(
      out_dim_order_size == dim_order.size(),
      InvalidArgument,
      "room for %zu dimensions, where the tensor has %zu",
      out_dim_order_size,
      dim_order.size());
  for (size_t i = 0; i < dim_order.size(); ++i) {
    out_dim_order[i] = dim_order[i];
  }
  return Error::Ok;
}

bool tensor_has_valid_dim_order(Tensor t) {
  const auto dim_order = t.dim_order();
  ET_CHECK_OR_RETURN_FALSE(
      validate_dim_order(dim_order.data(), dim_order.size()),
      "the dim order is no permutation of %zu dimensions",
      dim_order.size());
  return true;
}

bool tensor_is_default_or_channels_last_dim_order(Tensor t) {
  const auto dim_order = t.dim_order();
  ET_CHECK_OR_RETURN_FALSE(
      is_contiguous_dim_order(dim_order.data(), dim_order.size()) ||
          is_channels_last_dim_order(dim_order.data(), dim_order.size()),
      "the dim order is neither the default one nor channels last");
  return true;
}

bool tensor_is_default_dim_order(Tensor t) {
  const auto dim_order = t.dim_order();
  ET_CHECK_OR_RETURN_FALSE(
      is_contiguous_dim_order(dim_order.data(), dim_order.size()),
      "the dim order is not the default one");
  return true;
}

bool tensor_is_channels_last_dim_order(Tensor t) {
  const auto dim_order = t.dim_order();
  ET_CHECK_OR_RETURN_FALSE(
      is_channels_last_dim_order(dim_order.data(), dim_order.size()),
      "the dim order is not channels last");
  return true;
}

bool tensors_have_same_dim_order(const ArrayRef<Tensor> tensor_list) {
  for (size_t i = 1; i < tensor_list.size(); ++i) {
    ET_CHECK_OR_RETURN_FALSE(
        tensor_list[i].dim_order().equals(tensor_list[0].dim_order()),
        "tensor %zu has another dim order than the first one",
        i);
  }
  return true;
}

namespace internal {

/// Has access to TensorImpl.
class TensorResizerFriend final {
 public:
  static Error resize(TensorImpl* impl, ArrayRef<SizesType> new_sizes) {
    return impl->internal_resize_contiguous(new_sizes);
  }

  static void limit(TensorImpl* impl, const TensorImpl& other) {
    if (other.numel_bound_ < impl->numel_bound_) {
      impl->numel_bound_ = other.numel_bound_;
    }
  }
};

Error resize_tensor_impl(TensorImpl* impl, ArrayRef<SizesType> new_sizes) {
  return TensorResizerFriend::resize(impl, new_sizes);
}

void make_view(const Tensor& view, const Tensor& base) {
  TensorImpl* const impl = view.unsafeGetTensorImpl();
  impl->set_data(base.mutable_data_ptr());
  TensorResizerFriend::limit(impl, *base.unsafeGetTensorImpl());
}

Error share_tensor_data(const Tensor& t_dst, const Tensor& t_src) {
  ET_CHECK_OR_RETURN_ERROR(
      t_dst.nbytes() == t_src.nbytes(),
      InvalidArgument,
      "%zu bytes of data for a tensor of %zu",
      t_src.nbytes(),
      t_dst.nbytes());
  ET_CHECK_OR_RETURN_ERROR(
      t_src.mutable_data_ptr() != nullptr || t_src.nbytes() == 0,
      InvalidArgument,
      "the tensor has no data");
  t_dst.unsafeGetTensorImpl()->set_data(t_src.mutable_data_ptr());
  return Error::Ok;
}

Error copy_tensor_data(const Tensor& t_dst, const Tensor& t_src) {
  const size_t size = t_src.nbytes();
  ET_CHECK_OR_RETURN_ERROR(
      t_dst.nbytes() == size,
      InvalidArgument,
      "%zu bytes of data for a tensor of %zu",
      size,
      t_dst.nbytes());
  const uint8_t* source = static_cast<const uint8_t*>(t_src.const_data_ptr());
  uint8_t* target = static_cast<uint8_t*>(t_dst.mutable_data_ptr());
  ET_CHECK_OR_RETURN_ERROR(
      (source != nullptr && target != nullptr) || size == 0,
      InvalidArgument,
      "the tensor has no data");
  // Word by word, as the memcpy of the C library for small images goes byte by byte. memcpy of one
  // word is a load and a store at any alignment.
  size_t i = 0;
  for (; i + sizeof(uint32_t) <= size; i += sizeof(uint32_t)) {
    uint32_t word;
    __builtin_memcpy(&word, source + i, sizeof(word));
    __builtin_memcpy(target + i, &word, sizeof(word));
    // Keeps the compiler from making a call of memcpy of the loop.
    __asm__ volatile("" ::: "memory");
  }
  for (; i < size; ++i) {
    target[i] = source[i];
    __asm__ volatile("" ::: "memory");
  }
  return Error::Ok;
}

Error set_tensor_data(const Tensor& t, void* buffer, size_t buffer_size) {
  ET_CHECK_OR_RETURN_ERROR(
      buffer_size >= t.nbytes(),
      InvalidArgument,
      "a buffer of %zu bytes for a tensor of %zu",
      buffer_size,
      t.nbytes());
  t.unsafeGetTensorImpl()->set_data(buffer);
  return Error::Ok;
}

void reset_data_ptr(const Tensor& tensor) {
  tensor.unsafeGetTensorImpl()->set_data(nullptr);
}

} // namespace internal
} // namespace executorch::runtime
