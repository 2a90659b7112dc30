#include "firmware/tensor_text.h"

#include <cmath>
#include <cstring>

#include "firmware/console.h"

namespace torch_fusion {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;

namespace {

/// Elements of a tensor that are written at most.
constexpr ssize_t kMaxElements = 32;

template <typename T>
T element(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

void write_element(ScalarType dtype, const void* data, size_t index) {
  switch (dtype) {
    case ScalarType::Byte:
    case ScalarType::Bool:
      return console_unsigned(element<uint8_t>(data, index));
    case ScalarType::Char:
      return console_signed(element<int8_t>(data, index));
    case ScalarType::Short:
      return console_signed(element<int16_t>(data, index));
    case ScalarType::Int:
      return console_signed(element<int32_t>(data, index));
    case ScalarType::Long:
      return console_signed(element<int64_t>(data, index));
    case ScalarType::Float:
      return console_float(element<float>(data, index));
    case ScalarType::Double:
      return console_double(element<double>(data, index));
    case ScalarType::Half:
      return console_float(static_cast<float>(element<executorch::aten::Half>(data, index)));
    case ScalarType::BFloat16:
      return console_float(static_cast<float>(element<executorch::aten::BFloat16>(data, index)));
    default:
      return console_text("?");
  }
}

/// Returns |element - expected| for a dtype that float holds: Float, Half and BFloat16.
template <typename T>
float difference(const void* data, const void* expected, size_t index, float* magnitude) {
  const float a = static_cast<float>(element<T>(data, index));
  const float b = static_cast<float>(element<T>(expected, index));
  *magnitude = std::fabs(b);
  // Equal infinities and two NaN are no difference.
  return a == b || (a != a && b != b) ? 0.0f : std::fabs(a - b);
}

float difference_of(const Tensor& tensor, const void* expected, size_t index, float* magnitude) {
  const void* const data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return difference<float>(data, expected, index, magnitude);
    case ScalarType::Half:
      return difference<executorch::aten::Half>(data, expected, index, magnitude);
    case ScalarType::BFloat16:
      return difference<executorch::aten::BFloat16>(data, expected, index, magnitude);
    default: {
      *magnitude = 0.0f;
      const size_t size = tensor.element_size();
      return std::memcmp(
                 static_cast<const uint8_t*>(data) + index * size,
                 static_cast<const uint8_t*>(expected) + index * size,
                 size) == 0
          ? 0.0f
          : 1.0f;
    }
  }
}

} // namespace

const char* dtype_name(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
      return "Byte";
    case ScalarType::Char:
      return "Char";
    case ScalarType::Short:
      return "Short";
    case ScalarType::Int:
      return "Int";
    case ScalarType::Long:
      return "Long";
    case ScalarType::Half:
      return "Half";
    case ScalarType::Float:
      return "Float";
    case ScalarType::Double:
      return "Double";
    case ScalarType::Bool:
      return "Bool";
    case ScalarType::BFloat16:
      return "BFloat16";
    default:
      return "unknown dtype";
  }
}

void write_tensor(const Tensor& tensor) {
  console_text(dtype_name(tensor.scalar_type()));
  console_text(" [");
  for (ssize_t i = 0; i < tensor.dim(); ++i) {
    console_text(i == 0 ? "" : ", ");
    console_signed(tensor.size(i));
  }
  console_text("]:");
  for (ssize_t i = 0; i < tensor.numel() && i < kMaxElements; ++i) {
    console_text(" ");
    write_element(tensor.scalar_type(), tensor.const_data_ptr(), static_cast<size_t>(i));
  }
  if (tensor.numel() > kMaxElements) {
    console_text(" ... (");
    console_signed(tensor.numel() - kMaxElements);
    console_text(" more)");
  }
  console_text("\n");
}

float max_difference(const Tensor& tensor, const void* expected) {
  float largest = 0.0f;
  for (ssize_t i = 0; i < tensor.numel(); ++i) {
    float magnitude;
    const float difference = difference_of(tensor, expected, static_cast<size_t>(i), &magnitude);
    // Negated, so that NaN counts as larger.
    if (!(difference <= largest)) {
      largest = difference;
    }
  }
  return largest;
}

bool all_close(const Tensor& tensor, const void* expected, float atol, float rtol) {
  for (ssize_t i = 0; i < tensor.numel(); ++i) {
    float magnitude;
    const float difference = difference_of(tensor, expected, static_cast<size_t>(i), &magnitude);
    if (!(difference == 0.0f || difference <= atol + rtol * magnitude)) {
      return false;
    }
  }
  return true;
}

void store_element(ScalarType dtype, void* data, size_t index, float value) {
  const auto store = [&](auto element) {
    std::memcpy(static_cast<uint8_t*>(data) + index * sizeof(element), &element, sizeof(element));
  };
  switch (dtype) {
    case ScalarType::Byte:
      return store(static_cast<uint8_t>(value));
    case ScalarType::Bool:
      return store(static_cast<uint8_t>(value != 0.0f));
    case ScalarType::Char:
      return store(static_cast<int8_t>(value));
    case ScalarType::Short:
      return store(static_cast<int16_t>(value));
    case ScalarType::Int:
      return store(static_cast<int32_t>(value));
    case ScalarType::Long:
      return store(static_cast<int64_t>(static_cast<int32_t>(value)));
    case ScalarType::Half:
      return store(executorch::aten::Half(value));
    case ScalarType::BFloat16:
      return store(executorch::aten::BFloat16(value));
    case ScalarType::Float:
      return store(value);
    default:
      return;
  }
}

} // namespace torch_fusion
