#pragma once

#include <cstddef>
#include <cstdint>

namespace torch::executor::native::cortex_m {

/// The range of scales, whose inverses are normal numbers.
constexpr float kMinScale = 1e-37f;
constexpr float kMaxScale = 1e37f;

/// Maps a float to an integer for quantize().
struct Quantization {
  float inverse_scale;
  float zero_point;
  float min;
  float max;

  /// The nearest integer, halves to even; NaN gives 0.
  int32_t apply(float value) const {
    return apply_scaled(value * inverse_scale);
  }

  /// Does the same as apply() for a value times inverse_scale. It is not inline: it is for the rare
  /// values.
  __attribute__((noinline)) int32_t apply_scaled(float scaled) const;
};

/// Sets out[i] = quantization.apply(in[i * step]); T is int8_t or int16_t.
template <class T>
void quantize(
    const Quantization& quantization,
    const float* in,
    int32_t step,
    T* out,
    size_t count);

/// Does the same for neighbours, to all numbers of int8.
void quantize_neighbours(
    float inverse_scale,
    int32_t zero_point,
    const float* in,
    int8_t* out,
    size_t count);

/// Sets out[i] = (in[i * step] - quantization.zero_point) * scale; T is int8_t or int16_t.
template <class T>
void dequantize(
    const Quantization& quantization,
    float scale,
    const T* in,
    int32_t step,
    float* out,
    size_t count);

/// Returns the single-precision number nearest to 1 / scale, for a normal scale whose inverse is
/// normal.
float inverse(double scale);

} // namespace torch::executor::native::cortex_m
