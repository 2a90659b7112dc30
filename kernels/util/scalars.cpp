#include "kernels/util/scalars.h"

namespace torch {
namespace executor {
namespace native {

namespace {

// The largest number of a dtype that numbers may exceed, as a float.
float largest(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
      return 65504.0f;
    case ScalarType::BFloat16:
      return 3.38953139e38f;
    default:
      return 3.40282347e38f;
  }
}

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

} // namespace

float scalar_to_float(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    return float_of(scalar.to<double>());
  }
  return static_cast<float>(scalar_to_int(scalar));
}

int64_t scalar_to_int(const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    return int_of(scalar.to<double>());
  }
  return scalar.to<int64_t>();
}

bool check_fits(KernelRuntimeContext& ctx, const Scalar& scalar, ScalarType dtype) {
  bool does_fit = true;
  if (is_integral(dtype)) {
    does_fit = fits_integer(scalar, dtype);
  } else if (is_floating(dtype) && dtype != ScalarType::Double && scalar.isFloatingPoint()) {
    const double value = scalar.to<double>();
    does_fit = !(__builtin_fabsf(float_of(value)) > largest(dtype)) || !is_finite(value);
  }
  KERNEL_CHECK(
      ctx,
      does_fit,
      InvalidArgument,
      false,
      "A number is out of the range of dtype %d",
      static_cast<int>(dtype));
  return true;
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
