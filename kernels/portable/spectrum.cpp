#include "kernels/portable/spectrum.h"

#include "kernels/math/round.h"

namespace torch::executor::native {

void absolute_values(float* spectrum, int32_t count, bool squared) {
  const float* from = spectrum;
  for (float* const end = spectrum + count; spectrum != end; ++spectrum, from += 2) {
    const float power = from[0] * from[0] + from[1] * from[1];
    *spectrum = squared ? power : math::sqrt(power);
  }
}

void weighted_bands(
    const float* values,
    const int32_t* bands,
    const float* weights,
    int32_t count,
    float* out,
    int32_t step) {
  for (; count > 0; --count, bands += 2, out += step) {
    const float* const end = values + bands[0] + bands[1];
    float sum = 0.0f;
    for (const float* value = values + bands[0]; value != end; ++value) {
      sum += *value * *weights++;
    }
    *out = sum;
  }
}

} // namespace torch::executor::native
