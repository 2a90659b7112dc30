#include <executorch/runtime/core/exec_aten/util/tensor_shape_to_c_string.h>

#include "runtime/platform/format.h"

namespace executorch::runtime {

namespace {

template <typename SizesType>
std::array<char, kTensorShapeStringSizeLimit> to_c_string(Span<SizesType> shape) {
  std::array<char, kTensorShapeStringSizeLimit> text{};
  if (shape.size() > kTensorDimensionLimit) {
    internal::format(text.data(), text.size(), "(ERR: too many dimensions)");
    return text;
  }
  size_t length = internal::format(text.data(), text.size(), "(");
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto size = shape[i];
    const bool is_printable =
        size >= 0 && static_cast<uint64_t>(size) <= internal::kMaximumPrintableTensorShapeElement;
    const char* separator = i == 0 ? "" : ", ";
    length += is_printable
        ? internal::format(
              text.data() + length,
              text.size() - length,
              "%s%u",
              separator,
              static_cast<unsigned>(size))
        : internal::format(text.data() + length, text.size() - length, "%sERR", separator);
  }
  internal::format(text.data() + length, text.size() - length, ")");
  return text;
}

} // namespace

std::array<char, kTensorShapeStringSizeLimit> tensor_shape_to_c_string(
    Span<const std::int32_t> shape) {
  return to_c_string(shape);
}

std::array<char, kTensorShapeStringSizeLimit> tensor_shape_to_c_string(
    Span<const std::int64_t> shape) {
  return to_c_string(shape);
}

} // namespace executorch::runtime
