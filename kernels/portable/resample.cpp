#include "kernels/portable/resample.h"

namespace torch::executor::native {

namespace {

// Beyond all indices, but near enough that differences of coordinates are finite.
constexpr float kFarAway = 1e9f;

/// Mirrors a coordinate at the bounds low and low + span until it is between them.
float reflect(float coordinate, float low, float span) {
  if (span <= 0.0f) {
    return 0.0f;
  }
  const float distance = __builtin_fabsf(coordinate - low);
  const float flips = math::floor(distance / span);
  const float rest = math::fmod(distance, span);
  const bool is_even = math::fmod(flips, 2.0f) == 0.0f;
  return is_even ? low + rest : low + span - rest;
}

} // namespace

float grid_coordinate(float coordinate, int32_t size, bool align_corners) {
  const float extent = static_cast<float>(size);
  const float place = align_corners ? (coordinate + 1.0f) * 0.5f * (extent - 1.0f)
                                    : ((coordinate + 1.0f) * extent - 1.0f) * 0.5f;
  return math::clamp(place, -kFarAway, kFarAway);
}

float padded_coordinate(float coordinate, int32_t size, GridPadding padding, bool align_corners) {
  if (padding == GridPadding::Zeros) {
    return coordinate;
  }
  const float last = static_cast<float>(size) - 1.0f;
  if (padding == GridPadding::Reflection) {
    coordinate = align_corners ? reflect(coordinate, 0.0f, last)
                               : reflect(coordinate, -0.5f, static_cast<float>(size));
  }
  return coordinate > 0.0f ? (coordinate < last ? coordinate : last) : 0.0f;
}

void cubic_weights(float fraction, float (&weights)[4]) {
  constexpr float kA = -0.75f;
  // R. Keys, Cubic convolution interpolation for digital image processing, 1981: |x| at most 1, and
  // from 1 to 2.
  const auto near = [](float x) { return ((kA + 2.0f) * x - (kA + 3.0f)) * x * x + 1.0f; };
  const auto far = [](float x) { return ((kA * x - 5.0f * kA) * x + 8.0f * kA) * x - 4.0f * kA; };
  weights[0] = far(fraction + 1.0f);
  weights[1] = near(fraction);
  weights[2] = near(1.0f - fraction);
  weights[3] = far(2.0f - fraction);
}

} // namespace torch::executor::native
