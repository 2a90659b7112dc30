#pragma once

#include <cstdint>

namespace torch::executor::native::cortex_m {

/// Sizes in memory order, of four dims, and elements around them.
struct PadShape {
  int32_t sizes[4];
  int32_t before[4];
  int32_t after[4];
};

/// Copies `in` to the middle of `out`, and writes `value` around it.
void pad(const PadShape& shape, int8_t value, const int8_t* in, int8_t* out);

} // namespace torch::executor::native::cortex_m
