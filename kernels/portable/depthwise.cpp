#include "kernels/portable/depthwise.h"

namespace torch::executor::native {

void depthwise(
    int32_t stride,
    const float* in,
    const float* weight,
    float bias,
    float* out,
    int32_t rows,
    int32_t columns,
    int32_t in_row,
    int32_t in_column,
    int32_t out_row) {
  const float w0 = weight[0], w1 = weight[1], w2 = weight[2];
  const float w3 = weight[3], w4 = weight[4], w5 = weight[5];
  const float w6 = weight[6], w7 = weight[7], w8 = weight[8];
  for (; columns > 0; --columns, in += in_column) {
    const float* from = in;
    float* to = out++;
    float sum = bias + w0 * from[0] + w1 * from[1] + w2 * from[2];
    if (stride == 1) {
      from += in_row;
      float x0 = from[0], x1 = from[1], x2 = from[2];
      sum += w3 * x0 + w4 * x1 + w5 * x2;
      float next = bias + w0 * x0 + w1 * x1 + w2 * x2;
      for (int32_t y = rows; y > 0; --y) {
        from += in_row;
        x0 = from[0], x1 = from[1], x2 = from[2];
        sum += w6 * x0;
        sum += w7 * x1;
        sum += w8 * x2;
        *to = sum;
        to += out_row;
        sum = next + w3 * x0;
        sum += w4 * x1;
        sum += w5 * x2;
        next = bias + w0 * x0;
        next += w1 * x1;
        next += w2 * x2;
      }
    } else {
      for (int32_t y = rows; y > 0; --y) {
        from += in_row;
        sum += w3 * from[0];
        sum += w4 * from[1];
        sum += w5 * from[2];
        from += in_row;
        const float x0 = from[0], x1 = from[1], x2 = from[2];
        sum += w6 * x0;
        sum += w7 * x1;
        sum += w8 * x2;
        *to = sum;
        to += out_row;
        sum = bias + w0 * x0;
        sum += w1 * x1;
        sum += w2 * x2;
      }
    }
  }
}

} // namespace torch::executor::native
