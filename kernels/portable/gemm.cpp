#include "kernels/portable/gemm.h"

#include <executorch/runtime/platform/compiler.h>

#include "kernels/util/load.h"

namespace torch::executor::native {

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

namespace {

// Adds x times a row of four to a row of sums.
ET_INLINE void multiply_row(
    float x,
    float y0,
    float y1,
    float y2,
    float y3,
    float& s0,
    float& s1,
    float& s2,
    float& s3) {
  s0 += x * y0;
  s1 += x * y1;
  s2 += x * y2;
  s3 += x * y3;
}

// The following functions compute a block of the result: four rows or one, by four columns or one.
void block_4x4(const float* a, const float* b, float* out, size_t inner, size_t columns) {
  const float* a1 = a + inner;
  const float* a2 = a1 + inner;
  const float* a3 = a2 + inner;
  float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  float t0 = 0.0f, t1 = 0.0f, t2 = 0.0f, t3 = 0.0f;
  float u0 = 0.0f, u1 = 0.0f, u2 = 0.0f, u3 = 0.0f;
  float v0 = 0.0f, v1 = 0.0f, v2 = 0.0f, v3 = 0.0f;
  for (; inner > 0; --inner) {
    float y0, y1, y2, y3;
    load4_weights(b, y0, y1, y2, y3);
    b += columns - 4;
    multiply_row(*a++, y0, y1, y2, y3, s0, s1, s2, s3);
    multiply_row(*a1++, y0, y1, y2, y3, t0, t1, t2, t3);
    multiply_row(*a2++, y0, y1, y2, y3, u0, u1, u2, u3);
    multiply_row(*a3++, y0, y1, y2, y3, v0, v1, v2, v3);
  }
  columns -= 4;
  store4(out, s0, s1, s2, s3);
  out += columns;
  store4(out, t0, t1, t2, t3);
  out += columns;
  store4(out, u0, u1, u2, u3);
  out += columns;
  store4(out, v0, v1, v2, v3);
}

void block_1x4(const float* a, const float* b, float* out, size_t inner, size_t columns) {
  float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (; inner > 0; --inner) {
    float y0, y1, y2, y3;
    load4_weights(b, y0, y1, y2, y3);
    b += columns - 4;
    multiply_row(*a++, y0, y1, y2, y3, s0, s1, s2, s3);
  }
  store4(out, s0, s1, s2, s3);
}

void block_4x1(const float* a, const float* b, float* out, size_t inner, size_t columns) {
  const float* a1 = a + inner;
  const float* a2 = a1 + inner;
  const float* a3 = a2 + inner;
  float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (; inner > 0; --inner) {
    multiply_row(*b, *a++, *a1++, *a2++, *a3++, s0, s1, s2, s3);
    b += columns;
  }
  out[0] = s0;
  out[columns] = s1;
  out[2 * columns] = s2;
  out[3 * columns] = s3;
}

void block_1x1(const float* a, const float* b, float* out, size_t inner, size_t columns) {
  float sum = 0.0f;
  for (; inner > 0; --inner) {
    sum += *a++ * *b;
    b += columns;
  }
  *out = sum;
}

} // namespace

void matmul(const float* a, const float* b, float* out, size_t rows, size_t inner, size_t columns) {
  while (rows > 0) {
    const bool four_rows = rows >= 4;
    for (size_t column = 0; column < columns;) {
      const bool four_columns = columns - column >= 4;
      const auto block = four_rows ? (four_columns ? block_4x4 : block_4x1)
                                   : (four_columns ? block_1x4 : block_1x1);
      block(a, b + column, out + column, inner, columns);
      column += four_columns ? 4 : 1;
    }
    const size_t done = four_rows ? 4 : 1;
    rows -= done;
    a += done * inner;
    out += done * columns;
  }
}

} // namespace torch::executor::native
