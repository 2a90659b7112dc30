#pragma once

namespace torch {
namespace executor {
namespace native {
namespace math {

/// The error function for every float, at most 2 ulp from the exact value.
float erf(float x);

} // namespace math
} // namespace native
} // namespace executor
} // namespace torch
