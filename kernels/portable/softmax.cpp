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
      const float* const first = in + column;
      const float* const last = in + block;
      float max = *first;
      for (const float* x = first + inner; x < last; x += inner) {
        max = *x > max ? *x : max;
      }
      float sum = 0.0f;
      float* y = out + column;
      for (const float* x = first; x < last; x += inner, y += inner) {
        const float e = math::exp_nonpositive(*x - max);
        sum += e;
        *y = e;
      }
      const float scale = 1.0f / sum;
      for (y = out + column; y < out + block; y += inner) {
        *y *= scale;
      }
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
