#pragma once

namespace torch {
namespace executor {
namespace native {
namespace math {

/// x^y for all floats, at most 2 ulp from the exact value. Infinite and NaN results are those of C
/// (ISO/IEC 9899, annex F.10.4.4).
float pow(float x, float y);

} // namespace math
} // namespace native
} // namespace executor
} // namespace torch
