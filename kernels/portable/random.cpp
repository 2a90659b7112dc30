#include "kernels/portable/random.h"

#include "kernels/math/log.h"
#include "kernels/math/round.h"
#include "kernels/math/trigonometry.h"

namespace torch::executor::native {

uint32_t random_bits() {
  // Any start but 0.
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

float random_uniform() {
  return static_cast<float>(random_bits() >> 8) * 0x1p-24f;
}

float random_normal() {
  // 1 - u is not 0.
  const float radius = math::sqrt(-2.0f * math::log(1.0f - random_uniform()));
  return radius * math::cos(6.28318531f * random_uniform());
}

} // namespace torch::executor::native
