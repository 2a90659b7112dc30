#pragma once

namespace torch {
namespace executor {
namespace native {
namespace math {

/// The natural logarithm for every float, at most 2 ulp from the exact value, as
/// are all here; -infinity at 0, NaN below.
float log(float x);

/// The logarithm to base 2.
float log2(float x);

/// The logarithm to base 10.
float log10(float x);

/// log(1 + x)
float log1p(float x);

} // namespace math
} // namespace native
} // namespace executor
} // namespace torch
