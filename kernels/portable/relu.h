#pragma once

#include <cstddef>

namespace torch::executor::native {

/// Sets out[i] = in[i] if that is positive or NaN, else 0. `in` and `out` may be the same.
void relu(const float* in, float* out, size_t count);

} // namespace torch::executor::native
