#include "kernels/cortex_m/pad.h"

#include <cstddef>
#include <cstring>

namespace torch::executor::native::cortex_m {

void pad(const PadShape& shape, int8_t value, const int8_t* in, int8_t* out) {
  const auto fill = [&](int32_t count) {
    std::memset(out, value, static_cast<size_t>(count));
    out += count;
  };
  int32_t block[4];
  int32_t step = 1;
  for (size_t i = 4; i-- > 0;) {
    block[i] = step;
    step *= shape.before[i] + shape.sizes[i] + shape.after[i];
  }
  fill(shape.before[0] * block[0]);
  for (int32_t i = 0; i < shape.sizes[0]; ++i) {
    fill(shape.before[1] * block[1]);
    for (int32_t j = 0; j < shape.sizes[1]; ++j) {
      fill(shape.before[2] * block[2]);
      for (int32_t k = 0; k < shape.sizes[2]; ++k) {
        fill(shape.before[3]);
        // In a corrupted program out may overlap the input.
        std::memmove(out, in, static_cast<size_t>(shape.sizes[3]));
        in += shape.sizes[3];
        out += shape.sizes[3];
        fill(shape.after[3]);
      }
      fill(shape.after[2] * block[2]);
    }
    fill(shape.after[1] * block[1]);
  }
  fill(shape.after[0] * block[0]);
}

} // namespace torch::executor::native::cortex_m
