#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/executor/method_meta.h>

namespace executorch::runtime {

using executorch::aten::ScalarType;

Result<TensorInfo> TensorInfo::create(
    Span<const int32_t> sizes,
    Span<const uint8_t> dim_order,
    ScalarType scalar_type,
    const bool is_memory_planned,
    std::string_view name) {
  const Result<ssize_t> numel =
      etensor::safe_numel(sizes.data(), static_cast<ssize_t>(sizes.size()));
  size_t nbytes = 0;
  ET_CHECK_OR_RETURN_ERROR(
      numel.ok() && isValid(scalar_type) && dim_order.size() == sizes.size() &&
          !__builtin_mul_overflow(static_cast<size_t>(*numel), elementSize(scalar_type), &nbytes),
      InvalidProgram,
      "the type or the sizes of a tensor are corrupted");
  return TensorInfo(sizes, dim_order, scalar_type, is_memory_planned, name, nbytes);
}

TensorInfo::TensorInfo(
    Span<const int32_t> sizes,
    Span<const uint8_t> dim_order,
    ScalarType scalar_type,
    const bool is_memory_planned,
    std::string_view name,
    size_t nbytes)
    : sizes_(sizes),
      dim_order_(dim_order),
      name_(name),
      scalar_type_(scalar_type),
      is_memory_planned_(is_memory_planned),
      nbytes_(nbytes) {}

Span<const int32_t> TensorInfo::sizes() const {
  return sizes_;
}

Span<const uint8_t> TensorInfo::dim_order() const {
  return dim_order_;
}

ScalarType TensorInfo::scalar_type() const {
  return scalar_type_;
}

bool TensorInfo::is_memory_planned() const {
  return is_memory_planned_;
}

size_t TensorInfo::nbytes() const {
  return nbytes_;
}

std::string_view TensorInfo::name() const {
  return name_;
}

} // namespace executorch::runtime
