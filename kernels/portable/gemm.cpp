#include "kernels/portable/gemm.h"

#include <executorch/runtime/platform/compiler.h>

#include "kernels/util/load.h"

namespace torch {
namespace executor {
namespace native {

namespace {

// sum + a[0] * b[0] + ... of four terms; advances the weights.
ET_INLINE float
multiply4(float sum, const float*& weights, float x0, float x1, float x2, float x3) {
  float w0, w1, w2, w3;
  load4_weights(weights, w0, w1, w2, w3);
  sum += x0 * w0;
  sum += x1 * w1;
  sum += x2 * w2;
  return sum + x3 * w3;
}

} // namespace

void linear(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    size_t rows,
    size_t in_features,
    size_t out_features) {
  const size_t fours = in_features / 4;
  const size_t rest = in_features % 4;
  for (; rows > 0; --rows, in += in_features) {
    const float* w0 = weight;
    const float* b = bias;
    size_t n = out_features;
    // Four outputs at a time: one load of an input serves four rows of weights.
    for (; n >= 4; n -= 4) {
      const float* w1 = w0 + in_features;
      const float* w2 = w1 + in_features;
      const float* w3 = w2 + in_features;
      float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
      if (b != nullptr) {
        load4_inputs(b, s0, s1, s2, s3);
      }
      const float* x = in;
      size_t k = fours;
      if (k > 0) {
        do {
          float x0, x1, x2, x3;
          load4_inputs(x, x0, x1, x2, x3);
          s0 = multiply4(s0, w0, x0, x1, x2, x3);
          s1 = multiply4(s1, w1, x0, x1, x2, x3);
          s2 = multiply4(s2, w2, x0, x1, x2, x3);
          s3 = multiply4(s3, w3, x0, x1, x2, x3);
        } while (--k > 0);
      }
      k = rest;
      if (k > 0) {
        do {
          const float x0 = *x++;
          s0 += x0 * *w0++;
          s1 += x0 * *w1++;
          s2 += x0 * *w2++;
          s3 += x0 * *w3++;
        } while (--k > 0);
      }
      out[0] = s0;
      out[1] = s1;
      out[2] = s2;
      out[3] = s3;
      out += 4;
      w0 = w3;
    }
    for (; n > 0; --n) {
      float sum = b != nullptr ? *b++ : 0.0f;
      const float* x = in;
      for (size_t k = fours; k > 0; --k) {
        float x0, x1, x2, x3;
        load4_inputs(x, x0, x1, x2, x3);
        sum = multiply4(sum, w0, x0, x1, x2, x3);
      }
      for (size_t k = rest; k > 0; --k) {
        sum += *x++ * *w0++;
      }
      *out++ = sum;
    }
  }
}

} // namespace native
} // namespace executor
} // namespace torch
