#include "kernels/cortex_m/linear.h"

#include "kernels/cortex_m/dot.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

void matmul(
    const MatmulParameters& parameters,
    const int8_t* left,
    int32_t rows,
    const int8_t* right,
    int32_t columns,
    const int32_t* start,
    int32_t inner,
    int8_t* out) {
  for (int32_t i = 0; i < rows; ++i) {
    const int8_t* weight = right;
    for (int32_t j = 0; j < columns; ++j) {
      const int32_t sum = wrapping_add(
          start == nullptr ? 0 : start[j],
          dot<true>(left, parameters.left_offset, weight, parameters.right_offset, inner));
      weight += inner;
      *out++ = parameters.range.clamp(
          wrapping_add(requantize(sum, parameters.factor), parameters.output_offset));
    }
    left += inner;
  }
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
