#pragma once

namespace torch::executor::native::math {

/// sin(x) for every float, at most 2 ulp from the exact value, as are all here.
float sin(float x);
float cos(float x);
float tan(float x);
float asin(float x);
float acos(float x);

/// The angle of the point (x, y).
float atan2(float y, float x);

} // namespace torch::executor::native::math
