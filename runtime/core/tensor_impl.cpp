#include <executorch/runtime/core/portable_type/tensor_impl.h>

#include <cinttypes>

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include "runtime/core/tensor_view.h"

namespace executorch::runtime::etensor {

namespace {

// Multiplies sizes; false if one is negative or the product too large.
inline bool multiply(const TensorImpl::SizesType* sizes, ssize_t dim, ssize_t* numel) {
  ssize_t product = 1;
  for (const auto* const end = sizes + dim; sizes != end; ++sizes) {
    if (*sizes < 0 || __builtin_mul_overflow(product, *sizes, &product)) {
      return false;
    }
  }
  *numel = product;
  return true;
}

} // namespace

Result<ssize_t> safe_numel(const TensorImpl::SizesType* sizes, ssize_t dim) {
  ssize_t numel = 0;
  ET_CHECK_OR_RETURN_ERROR(
      multiply(sizes, dim, &numel),
      InvalidArgument,
      "the sizes of a tensor are negative or too large");
  return numel;
}

ssize_t compute_numel(const TensorImpl::SizesType* sizes, ssize_t dim) {
  ssize_t numel = 0;
  ET_CHECK_MSG(multiply(sizes, dim, &numel), "the sizes of a tensor are negative or too large");
  return numel;
}

TensorImpl::TensorImpl(
    ScalarType type,
    ssize_t dim,
    SizesType* sizes,
    void* data,
    DimOrderType* dim_order,
    StridesType* strides,
    TensorShapeDynamism dynamism,
    DeviceType device_type,
    DeviceIndex device_index)
    : sizes_(sizes),
      dim_order_(dim_order),
      strides_(strides),
      data_(data),
      dim_(dim),
      numel_(compute_numel(sizes, dim)),
      numel_bound_(static_cast<size_t>(numel_)),
      type_(type),
      shape_dynamism_(dynamism),
      device_(device_type, device_index) {}

ssize_t TensorImpl::element_size() const {
  return static_cast<ssize_t>(elementSize(type_));
}

size_t TensorImpl::nbytes() const {
  return static_cast<size_t>(numel_) * elementSize(type_);
}

Error TensorImpl::internal_resize_contiguous(ArrayRef<SizesType> new_sizes) {
  ET_CHECK_OR_RETURN_ERROR(
      new_sizes.size() == static_cast<size_t>(dim_),
      NotSupported,
      "a tensor of %zd dimensions cannot become one of %zu",
      dim_,
      new_sizes.size());
  // Kernels set the sizes of results in each call, hardly ever to others. std::equal() would
  // compare bytes, by memcmp().
  size_t same = 0;
  while (same < new_sizes.size() && new_sizes[same] == sizes_[same]) {
    ++same;
  }
  if (same == new_sizes.size()) {
    return Error::Ok;
  }
  // A size of 0 counts as 1, as in TensorParser, because kernels use the strides of the others,
  // too. A negative size is too large.
  bool is_empty = false;
  bool fits = true;
  uint32_t span = 1;
  for (ssize_t i = 0; i < dim_; ++i) {
    const SizesType size = new_sizes[static_cast<size_t>(i)];
    is_empty |= size == 0;
    const uint64_t product = uint64_t{span} * static_cast<uint32_t>(size == 0 ? 1 : size);
    fits &= product <= INT32_MAX;
    span = static_cast<uint32_t>(product);
  }
  ET_CHECK_OR_RETURN_ERROR(
      shape_dynamism_ != TensorShapeDynamism::STATIC,
      NotSupported,
      "the shape of a tensor is static and cannot change");
  ET_CHECK_OR_RETURN_ERROR(
      fits, NotSupported, "the sizes are negative, or have more than 2^31 - 1 elements");
  const size_t bound = is_empty ? runtime::internal::kMaxEmptySpan : numel_bound_;
  ET_CHECK_OR_RETURN_ERROR(
      span <= bound,
      NotSupported,
      "%" PRIu32 " elements are more than the %zu that the tensor was planned for",
      span,
      bound);
  ET_CHECK_OR_RETURN_ERROR(
      strides_ != nullptr && dim_order_ != nullptr,
      Internal,
      "a tensor without strides and dim order cannot be resized");
  for (ssize_t i = 0; i < dim_; ++i) {
    sizes_[i] = new_sizes[static_cast<size_t>(i)];
  }
  numel_ = is_empty ? 0 : static_cast<ssize_t>(span);
  return dim_order_to_stride(sizes_, dim_order_, static_cast<size_t>(dim_), strides_);
}

} // namespace executorch::runtime::etensor
