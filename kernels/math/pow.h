#pragma once

namespace torch::executor::native::math {

/// x^y for all floats, at most 2 ulp from the exact value. Infinite and NaN results are those of C
/// (ISO/IEC 9899, annex F.10.4.4).
float pow(float x, float y);

} // namespace torch::executor::native::math
