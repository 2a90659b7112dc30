#include "kernels/util/scalars.h"

namespace torch {
namespace executor {
namespace native {

float scalar_to_float(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    return static_cast<float>(scalar.to<double>());
  }
  return static_cast<float>(scalar.to<int64_t>());
}

int64_t scalar_to_int(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    const double value = scalar.to<double>();
    // Outside of int64 the conversion would be undefined; NaN fails too.
    const bool fits = value >= -9223372036854775808.0 && value < 9223372036854775808.0;
    return fits ? static_cast<int64_t>(value) : 0;
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

} // namespace native
} // namespace executor
} // namespace torch
