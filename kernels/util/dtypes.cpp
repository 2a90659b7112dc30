#include "kernels/util/dtypes.h"

namespace torch::executor::native {

namespace {

enum class Category : uint8_t { Bool, Integral, Floating, Other };

Category category(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return Category::Bool;
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
      return Category::Integral;
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
      return Category::Floating;
    default:
      return Category::Other;
  }
}

ScalarType promote_within_category(ScalarType a, ScalarType b) {
  if (a == b) {
    return a;
  }
  const ScalarType low = a < b ? a : b;
  const ScalarType high = a < b ? b : a;
  // uint8 and int8 need one more bit; so do the two 16-bit floats.
  if (low == ScalarType::Byte && high == ScalarType::Char) {
    return ScalarType::Short;
  }
  if (high == ScalarType::BFloat16) {
    return low == ScalarType::Half ? ScalarType::Float : low;
  }
  // The remaining dtypes of a category are numbered by width.
  return high;
}

} // namespace

ScalarType promote(ScalarType a, bool a_zero_dim, ScalarType b, bool b_zero_dim) {
  const Category a_category = category(a);
  const Category b_category = category(b);
  if (a_category == Category::Other || b_category == Category::Other) {
    return ScalarType::Undefined;
  }
  if (a_category != b_category) {
    return a_category > b_category ? a : b;
  }
  if (a_zero_dim != b_zero_dim) {
    return a_zero_dim ? b : a;
  }
  return promote_within_category(a, b);
}

bool can_cast(ScalarType from, ScalarType to) {
  const Category to_category = category(to);
  return to_category != Category::Other && category(from) <= to_category;
}

bool is_integral(ScalarType dtype) {
  return category(dtype) == Category::Integral;
}

bool is_floating(ScalarType dtype) {
  return category(dtype) == Category::Floating;
}

} // namespace torch::executor::native
