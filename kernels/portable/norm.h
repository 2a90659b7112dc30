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
namespace torch {
namespace executor {
namespace native {
namespace norm {

/// Sums of neighbouring elements, four at a time for floats.
template <class T, class Term>
ComputeType<T> sum_of(const T* in, size_t count, Term&& term) {
  using C = ComputeType<T>;
  C sum = C(0);
  if constexpr (std::is_same_v<T, float>) {
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (; count >= 4; count -= 4) {
      float x0, x1, x2, x3;
      load4_inputs(in, x0, x1, x2, x3);
      term(sums[0], x0);
      term(sums[1], x1);
      term(sums[2], x2);
      term(sums[3], x3);
    }
    sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  for (; count > 0; --count) {
    term(sum, static_cast<C>(*in++));
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
    sum += sum_of(in + run * step, count, [](C& total, C x) { total += x; });
  }
  mean = sum / size;
  sum = C(0);
  for (size_t run = 0; run < runs; ++run) {
    sum += sum_of(in + run * step, count, [&](C& total, C x) {
      const C distance = x - mean;
      total += distance * distance;
    });
  }
  variance = sum / size;
}

template <class C>
C rstd_of(C variance, C eps) {
  return C(1) / math::sqrt(variance + eps);
}

/// out = (in - mean) * scale + shift
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

/// out[i] = (in[i] - mean) * rstd * weight[i] + bias[i]; either may be missing.
template <class T>
void normalize_elements(
    const T* in,
    const T* weight,
    const T* bias,
    T* out,
    size_t count,
    ComputeType<T> mean,
    ComputeType<T> rstd) {
  using C = ComputeType<T>;
  if (weight == nullptr && bias == nullptr) {
    normalize(in, out, count, mean, rstd, C(0));
    return;
  }
  size_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (weight != nullptr && bias != nullptr) {
      const float* from = in;
      const float* factor = weight;
      float* to = out;
      for (; i + 4 <= count; i += 4) {
        float x0, x1, x2, x3, w0, w1, w2, w3;
        load4_inputs(from, x0, x1, x2, x3);
        load4_weights(factor, w0, w1, w2, w3);
        const float* const shift = bias + i;
        store4(
            to,
            (x0 - mean) * rstd * w0 + shift[0],
            (x1 - mean) * rstd * w1 + shift[1],
            (x2 - mean) * rstd * w2 + shift[2],
            (x3 - mean) * rstd * w3 + shift[3]);
      }
    }
  }
  for (; i < count; ++i) {
    C value = (static_cast<C>(in[i]) - mean) * rstd;
    if (weight != nullptr) {
      value *= static_cast<C>(weight[i]);
    }
    if (bias != nullptr) {
      value += static_cast<C>(bias[i]);
    }
    out[i] = convert<T>(value);
  }
}

} // namespace norm
} // namespace native
} // namespace executor
} // namespace torch
