#pragma once

namespace torch::executor::native::math {

/// The error function for every float, at most 2 ulp from the exact value.
float erf(float x);

} // namespace torch::executor::native::math
