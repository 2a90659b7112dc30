#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/math/double.h"
#include "kernels/math/round.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/load.h"

/**
 * What layer, group and batch normalization are made of: on pointers and sizes,
 * computed in ComputeType<T>.
 */
namespace torch::executor::native::norm {

/// The elements of a weight, bias or statistic: of the input's dtype, or of Float if the input has
/// a 16-bit one.
template <class T>
class Parameters {
 public:
  Parameters(const void* data, bool is_float) : data_(data), is_float_(is_float) {}

  bool is_missing() const {
    return data_ == nullptr;
  }
  /// Returns the elements in place, or converted if T has 16 bits.
  const T* elements() const {
    return static_cast<const T*>(data_);
  }
  ComputeType<T> operator[](size_t index) const {
    if constexpr (is_reduced<T>) {
      if (is_float_) {
        return static_cast<const float*>(data_)[index];
      }
    }
    return static_cast<ComputeType<T>>(elements()[index]);
  }

 private:
  const void* data_;
  bool is_float_;
};

/// The sum of neighbouring elements, or of the squares of their distances from `center`; eight at a
/// time for floats.
template <bool kIsSquared, class T>
ComputeType<T> sum_of(const T* in, size_t count, ComputeType<T> center) {
  using C = ComputeType<T>;
  const auto add = [&](C& total, C x) __attribute__((always_inline)) {
    if constexpr (kIsSquared) {
      total += (x - center) * (x - center);
    } else {
      total += x;
    }
  };
  C sum = C(0);
  if constexpr (std::is_same_v<T, float>) {
    float a = 0.0f;
    float b = 0.0f;
    float c = 0.0f;
    for (; count >= 8; count -= 8) {
      float x0, x1, x2, x3, x4, x5, x6, x7;
      load4_inputs(in, x0, x1, x2, x3);
      load4_weights(in, x4, x5, x6, x7);
      add(sum, x0);
      add(a, x1);
      add(b, x2);
      add(c, x3);
      add(sum, x4);
      add(a, x5);
      add(b, x6);
      add(c, x7);
    }
    sum = (sum + a) + (b + c);
  }
  for (; count > 0; --count) {
    add(sum, static_cast<C>(*in++));
  }
  return sum;
}

/// Mean and biased variance of `runs` runs of `count` elements, `step` apart.
template <class T>
void mean_and_variance(
    const T* in,
    size_t runs,
    size_t step,
    size_t count,
    ComputeType<T>& mean,
    ComputeType<T>& variance) {
  using C = ComputeType<T>;
  const C size = static_cast<C>(runs * count);
  C sum = C(0);
  for (size_t run = 0; run < runs; ++run) {
    sum += sum_of<false>(in + run * step, count, C(0));
  }
  mean = sum / size;
  sum = C(0);
  for (size_t run = 0; run < runs; ++run) {
    sum += sum_of<true>(in + run * step, count, mean);
  }
  variance = sum / size;
}

/// The reciprocal of the standard deviation.
template <class C>
C rstd_of(C variance, C eps) {
  return C(1) / math::sqrt(variance + eps);
}

/// Sets out = (in - mean) * scale + shift.
template <class T>
void normalize(
    const T* in,
    T* out,
    size_t count,
    ComputeType<T> mean,
    ComputeType<T> scale,
    ComputeType<T> shift) {
  using C = ComputeType<T>;
  if constexpr (std::is_same_v<T, float>) {
    for (; count >= 4; count -= 4) {
      float x0, x1, x2, x3;
      load4_inputs(in, x0, x1, x2, x3);
      store4(
          out,
          (x0 - mean) * scale + shift,
          (x1 - mean) * scale + shift,
          (x2 - mean) * scale + shift,
          (x3 - mean) * scale + shift);
    }
  }
  for (; count > 0; --count) {
    *out++ = convert<T>((static_cast<C>(*in++) - mean) * scale + shift);
  }
}

/// Sets out[i] = (in[i] - mean) * rstd * weight[i] + bias[i]; either may be missing.
template <class T>
void normalize_elements(
    const T* in,
    const Parameters<T>& weight,
    const Parameters<T>& bias,
    T* out,
    size_t count,
    ComputeType<T> mean,
    ComputeType<T> rstd) {
  using C = ComputeType<T>;
  size_t at = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (!weight.is_missing() && !bias.is_missing()) {
      const float* factors = weight.elements();
      const float* shifts = bias.elements();
      for (; count >= 4; count -= 4) {
        float x0, x1, x2, x3, w0, w1, w2, w3, b0, b1, b2, b3;
        load4_inputs(in, x0, x1, x2, x3);
        load4_weights(factors, w0, w1, w2, w3);
        load4_biases(shifts, b0, b1, b2, b3);
        store4(
            out,
            (x0 - mean) * rstd * w0 + b0,
            (x1 - mean) * rstd * w1 + b1,
            (x2 - mean) * rstd * w2 + b2,
            (x3 - mean) * rstd * w3 + b3);
      }
      at = static_cast<size_t>(factors - weight.elements());
    }
  }
  for (; count > 0; --count, ++at) {
    C value = (static_cast<C>(*in++) - mean) * rstd;
    if (!weight.is_missing()) {
      value *= weight[at];
    }
    if (!bias.is_missing()) {
      value += bias[at];
    }
    *out++ = convert<T>(value);
  }
}

} // namespace torch::executor::native::norm
