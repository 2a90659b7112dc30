#include "kernels/util/scalars.h"

namespace torch::executor::native {

bool fits_integer(const Scalar& scalar, ScalarType dtype) {
  int64_t value;
  if (scalar.isFloatingPoint()) {
    const double number = scalar.to<double>();
    if (!(__builtin_fabsf(float_of(number)) < 9.2e18f)) {
      return false;
    }
    value = int_of(number);
  } else {
    value = scalar_to_int(scalar);
  }
  // Byte, Char, Short, Int and Long are 0, 1, 2, 3 and 4.
  if (dtype == ScalarType::Byte) {
    return value >= -UINT8_MAX && value <= UINT8_MAX;
  }
  const int32_t unused = 64 - (4 << static_cast<int32_t>(dtype));
  const uint64_t up = static_cast<uint64_t>(value) << unused;
  return static_cast<int64_t>(up) >> unused == value;
}

bool fits_float(const Scalar& scalar, float largest) {
  if (!scalar.isFloatingPoint()) {
    return true;
  }
  const double value = scalar.to<double>();
  return !(__builtin_fabsf(float_of(value)) > largest) || !is_finite(value);
}

float largest_float(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
      return 65504.0f;
    case ScalarType::BFloat16:
      return 3.38953139e38f;
    default:
      return 3.40282347e38f;
  }
}

float scalar_to_float(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    return float_of(scalar.to<double>());
  }
  return float_of_int(scalar.to<int64_t>());
}

int64_t scalar_to_int(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    return int_of(scalar.to<double>());
  }
  return scalar.to<int64_t>();
}

float rounded_to(ScalarType dtype, float value) {
  switch (dtype) {
    case ScalarType::Half:
      return executorch::aten::Half(value);
    case ScalarType::BFloat16:
      return executorch::aten::BFloat16(value);
    default:
      return value;
  }
}

ScalarType scalar_dtype(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    return ScalarType::Float;
  }
  return scalar.isBoolean() ? ScalarType::Bool : ScalarType::Long;
}

} // namespace torch::executor::native
