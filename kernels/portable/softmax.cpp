#include "kernels/portable/softmax.h"

#include "kernels/math/exp.h"
#include "kernels/util/load.h"

namespace torch::executor::native {

namespace {

// Rows of contiguous elements are read and written four at a time.

float max_of(const float* x, size_t size, size_t inner) {
  float max = *x;
  if (inner == 1) {
    for (; size >= 4; size -= 4) {
      float x0, x1, x2, x3;
      load4_inputs(x, x0, x1, x2, x3);
      max = x0 > max ? x0 : max;
      max = x1 > max ? x1 : max;
      max = x2 > max ? x2 : max;
      max = x3 > max ? x3 : max;
    }
  }
  for (; size > 0; --size, x += inner) {
    max = *x > max ? *x : max;
  }
  return max;
}

void scale(float* y, size_t size, size_t inner, float factor) {
  if (inner == 1) {
    const float* from = y;
    for (; size >= 4; size -= 4) {
      float y0, y1, y2, y3;
      load4_inputs(from, y0, y1, y2, y3);
      store4(y, y0 * factor, y1 * factor, y2 * factor, y3 * factor);
    }
  }
  for (; size > 0; --size, y += inner) {
    *y *= factor;
  }
}

} // namespace

void softmax(const float* in, float* out, size_t count, size_t size, size_t inner) {
  const float* const end = in + count;
  const size_t block = size * inner;
  for (; in < end; in += block, out += block) {
    for (size_t column = 0; column < inner; ++column) {
      const float* x = in + column;
      float* y = out + column;
      const float max = max_of(x, size, inner);
      float sum = 0.0f;
      size_t rest = size;
      do {
        const float e = math::exp_nonpositive(*x - max);
        sum += e;
        *y = e;
        x += inner;
        y += inner;
      } while (--rest > 0);
      scale(out + column, size, inner, 1.0f / sum);
    }
  }
}

} // namespace torch::executor::native
