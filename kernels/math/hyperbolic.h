#pragma once

#include <cstddef>

namespace torch::executor::native::math {

/// tanh(x) for every float, at most 2 ulp from the exact value.
float tanh(float x);

/// sinh(x) for every float, at most 2 ulp from the exact value, as are those
/// that follow.
float sinh(float x);
float cosh(float x);
float asinh(float x);
float acosh(float x);
float atanh(float x);

/// 1 / (1 + e^-x) for every float, at most 2 ulp from the exact value; 0 where
/// the result would be less than the smallest normal number.
float sigmoid(float x);

/// out[i] = sigmoid(in[i]) without a call for each; `in` and `out` may be the same.
void sigmoid(const float* in, float* out, size_t count);

} // namespace torch::executor::native::math
