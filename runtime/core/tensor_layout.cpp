#include <executorch/runtime/core/tensor_layout.h>

namespace executorch::runtime {

Result<const TensorLayout> TensorLayout::create(
    Span<const int32_t> sizes,
    Span<const uint8_t> dim_order,
    executorch::aten::ScalarType scalar_type) {
  ET_CHECK_OR_RETURN_ERROR(
      dim_order.size() == sizes.size() && executorch::runtime::isValid(scalar_type),
      InvalidArgument,
      "%zu sizes, %zu dimensions in the dim order, scalar type %d",
      sizes.size(),
      dim_order.size(),
      static_cast<int>(scalar_type));
  const Result<ssize_t> numel =
      etensor::safe_numel(sizes.data(), static_cast<ssize_t>(sizes.size()));
  if (!numel.ok()) {
    return numel.error();
  }
  size_t nbytes = 0;
  ET_CHECK_OR_RETURN_ERROR(
      !__builtin_mul_overflow(static_cast<size_t>(*numel), elementSize(scalar_type), &nbytes),
      InvalidArgument,
      "the tensor is too large");
  return TensorLayout(sizes, dim_order, scalar_type, nbytes);
}

} // namespace executorch::runtime
