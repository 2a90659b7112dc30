#pragma once

#include <cstdint>
#include <optional>

#include "kernels/math/round.h"
#include "kernels/soft_double.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

/**
 * Affine quantization: value = (quantized - zero point) * scale
 * (torch/ao/quantization/fx/_decomposed.py). It is computed in float32, whatever the dtype of the
 * parameters, or in float64 if that is the result's dtype; halves are rounded to even.
 */
namespace torch::executor::native {

/// The dtypes of quantized values, and of the numbers that they represent.
using QuantizedTypes =
    DtypeList<ScalarType::Char, ScalarType::Byte, ScalarType::Short, ScalarType::Int>;
using RealFloatTypes = DtypeList<ScalarType::Float, ScalarType::Half, ScalarType::BFloat16>;

/// The range of quantized values.
struct QuantizedRange {
  int32_t low;
  int32_t high;

  /// Fails the context (InvalidType, InvalidArgument) and returns false if the
  /// tensor is of another dtype than `dtype`, or the range is not in it.
  bool init(
      KernelRuntimeContext& ctx,
      int64_t quant_min,
      int64_t quant_max,
      ScalarType dtype,
      const Tensor& quantized);
};

/// Fails the context (InvalidType) and returns false if a dtype is given that `out` does not hold.
inline bool check_out_dtype(
    KernelRuntimeContext& ctx,
    const Tensor& out,
    const std::optional<ScalarType>& dtype) {
  return dtype_or_fail(ctx, out, dtype.value_or(out.scalar_type()), "out");
}

/// A number of a tensor of floats or integers of any dtype as a float.
float number_at(const Tensor& tensor, size_t index);

/// Fails the context (InvalidType) and returns false if number_at() cannot read it.
bool check_numbers(KernelRuntimeContext& ctx, const Tensor& tensor);

/// Scales and zero points, one pair for all or one for each of some channels.
class AffineParameters {
 public:
  AffineParameters(double scale, int64_t zero_point)
      : scale_(float_of(scale)), zero_point_(float_of_int(zero_point)) {}
  AffineParameters(const Tensor& scales, const Tensor* zero_points)
      : scales_(&scales), zero_points_(zero_points) {}
  AffineParameters(const Tensor& scales, const Tensor& zero_points)
      : AffineParameters(scales, &zero_points) {}

  /// Fails the context (InvalidArgument, InvalidType) and returns false if there
  /// are not parameters for `channels` channels.
  bool check(KernelRuntimeContext& ctx, size_t channels) const;

  float scale(size_t channel) const {
    return scales_ == nullptr ? scale_ : number_at(*scales_, channel);
  }
  float zero_point(size_t channel) const {
    return scales_ == nullptr     ? zero_point_
        : zero_points_ == nullptr ? 0.0f
                                  : number_at(*zero_points_, channel);
  }

 private:
  float scale_ = 1.0f;
  float zero_point_ = 0.0f;
  const Tensor* scales_ = nullptr;
  const Tensor* zero_points_ = nullptr;
};

/// Clamps to the range of quantized values; NaN becomes the lowest one.
inline float to_range(float value, const QuantizedRange& range) {
  const float low = static_cast<float>(range.low);
  const float high = static_cast<float>(range.high);
  return value > low ? (value < high ? value : high) : low;
}

/// Converts a result of to_range(); int32's largest value is not representable as a float.
template <class Q>
inline Q from_range(float value) {
  if constexpr (sizeof(Q) == sizeof(int32_t)) {
    return value >= 2147483648.0f ? INT32_MAX : static_cast<Q>(value);
  } else {
    return static_cast<Q>(static_cast<int32_t>(value));
  }
}

/**
 * Quantizes neighbouring elements.
 *
 * @param[in] rounds_last Whether the zero point is added before rounding, as for tokens, or after.
 */
template <class T, class Q>
void quantize_run(
    const T* from,
    Q* to,
    size_t count,
    float scale,
    float zero_point,
    const QuantizedRange& range,
    bool rounds_last) {
  const float inverse = 1.0f / scale;
  for (; count > 0; --count) {
    const float scaled = convert<float>(*from++) * inverse;
    const float value = rounds_last ? math::round_to_even(scaled + zero_point)
                                    : math::round_to_even(scaled) + zero_point;
    *to++ = from_range<Q>(to_range(value, range));
  }
}

/// Computes the values of neighbouring quantized elements in ComputeType<T>.
template <class Q, class T>
void dequantize_run(const Q* from, T* to, size_t count, float scale, float zero_point) {
  using Number = ComputeType<T>;
  for (; count > 0; --count) {
    const Number offset = static_cast<Number>(*from++) - static_cast<Number>(zero_point);
    *to++ = convert<T>(offset * static_cast<Number>(scale));
  }
}

} // namespace torch::executor::native
