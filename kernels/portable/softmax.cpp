#include "kernels/portable/softmax.h"

#include "kernels/math/exp.h"

namespace torch {
namespace executor {
namespace native {

void softmax(const float* in, float* out, size_t count, size_t size, size_t inner) {
  const float* const end = in + count;
  const size_t block = size * inner;
  for (; in < end; in += block, out += block) {
    for (size_t column = 0; column < inner; ++column) {
      const float* x = in + column;
      float max = *x;
      size_t rest = size;
      while (--rest > 0) {
        x += inner;
        max = *x > max ? *x : max;
      }
      x = in + column;
      float* y = out + column;
      float sum = 0.0f;
      rest = size;
      do {
        const float e = math::exp_nonpositive(*x - max);
        sum += e;
        *y = e;
        x += inner;
        y += inner;
      } while (--rest > 0);
      const float scale = 1.0f / sum;
      y = out + column;
      rest = size;
      do {
        *y *= scale;
        y += inner;
      } while (--rest > 0);
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
