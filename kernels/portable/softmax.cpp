#include "kernels/portable/softmax.h"

#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {

void softmax(const float* in, float* out, size_t outer, size_t size, size_t inner) {
  const size_t block = size * inner;
  if (block == 0) {
    return;
  }
  for (; outer > 0; --outer, in += block, out += block) {
    for (size_t column = 0; column < inner; ++column) {
      const float* x = in + column;
      size_t count = size;
      float max = *x;
      do {
        max = *x > max ? *x : max;
        x += inner;
      } while (--count > 0);
      x = in + column;
      float* y = out + column;
      float sum = 0.0f;
      count = size;
      do {
        const float e = math::exp_nonpositive(*x - max);
        sum += e;
        *y = e;
        x += inner;
        y += inner;
      } while (--count > 0);
      const float scale = 1.0f / sum;
      y = out + column;
      count = size;
      do {
        *y *= scale;
        y += inner;
      } while (--count > 0);
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
