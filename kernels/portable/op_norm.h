#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/norm.h"
#include "kernels/soft_double.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

/**
 * Layer, group and batch normalization of contiguous tensors; statistics of the
 * 16-bit floats are computed in float. Weights, biases and statistics have the input's dtype, or
 * with a 16-bit one Float, as in eager PyTorch. Batch normalization takes any dim order.
 */
namespace torch::executor::native {

namespace internal {

using ThreeTensors = std::tuple<Tensor&, Tensor&, Tensor&>;

/// The elements of a weight, bias or statistic.
template <class T>
norm::Parameters<T> parameters_of(const Tensor& tensor) {
  return {tensor.const_data_ptr(), is_reduced<T> && tensor.scalar_type() == ScalarType::Float};
}

/// Does the same for one that may be missing.
template <class T>
norm::Parameters<T> parameters_of(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? parameters_of<T>(*tensor) : norm::Parameters<T>(nullptr, false);
}

/// Writes an element of a statistic.
template <class T>
void write_statistic(const Tensor& statistic, size_t index, ComputeType<T> value) {
  if constexpr (is_reduced<T>) {
    if (statistic.scalar_type() == ScalarType::Float) {
      statistic.mutable_data_ptr<float>()[index] = value;
      return;
    }
  }
  statistic.mutable_data_ptr<T>()[index] = convert<T>(value);
}

/// Fails the context (InvalidType or InvalidArgument) and returns false unless weight and bias are
/// missing, or have one dtype that goes with `self`'s, and `count` elements.
bool check_parameters(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    size_t count);

/// Does the same for a statistic.
bool check_statistic(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& statistic,
    size_t count);

/// Shapes out like input; fails the context and returns false unless both are of one dtype, and
/// weight and bias are parameters of `count` elements.
template <class S>
bool start_norm(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    size_t count,
    Tensor& out) {
  return shape_like<S>(ctx, out, input) && same_dtype_or_fail(ctx, input, out) &&
      check_parameters(ctx, input, weight, bias, count);
}

/// Shapes the statistics that are written, of `count` elements each; fails the context and returns
/// false if they do not fit.
template <class S>
bool start_statistics(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<SizesType> sizes,
    size_t count,
    Tensor& mean,
    Tensor& rstd) {
  if constexpr (S::has(Variant::DynamicShape)) {
    if (!resize_out(ctx, mean, sizes) || !resize_out(ctx, rstd, sizes)) {
      return false;
    }
  } else {
    static_cast<void>(sizes);
  }
  return check_statistic(ctx, input, mean, count) && check_statistic(ctx, input, rstd, count);
}

} // namespace internal

/// aten::native_layer_norm.out
template <class S>
internal::ThreeTensors native_layer_norm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ArrayRef<int64_t> normalized_shape,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    double eps,
    Tensor& out,
    Tensor& mean,
    Tensor& rstd) {
  const internal::ThreeTensors result{out, mean, rstd};
  const auto sizes = input.sizes();
  KERNEL_CHECK(
      ctx,
      normalized_shape.size() > 0 && normalized_shape.size() <= sizes.size(),
      InvalidArgument,
      result,
      "normalized_shape has no elements, or more than input has dims");
  const size_t axis = sizes.size() - normalized_shape.size();
  size_t size = 1;
  for (size_t i = axis; i < sizes.size(); ++i) {
    KERNEL_CHECK(
        ctx,
        normalized_shape[i - axis] == sizes[i],
        InvalidArgument,
        result,
        "normalized_shape is not the shape of input's last dims");
    size *= static_cast<size_t>(sizes[i]);
  }
  Shape outer(ArrayRef<SizesType>(sizes.data(), axis));
  size_t rows = 1;
  for (size_t i = 0; i < axis; ++i) {
    rows *= static_cast<size_t>(sizes[i]);
  }
  while (outer.dims < sizes.size()) {
    outer.append(1);
  }
  if (!check_contiguous<S>(ctx, input, out) ||
      !internal::start_norm<S>(ctx, input, weight, bias, size, out) ||
      !internal::start_statistics<S>(ctx, input, outer, rows, mean, rstd)) {
    return result;
  }
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = input.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    const auto factors = internal::parameters_of<T>(weight);
    const auto shifts = internal::parameters_of<T>(bias);
    for (size_t row = 0; row < rows; ++row, from += size, to += size) {
      C average;
      C variance;
      norm::mean_and_variance(from, 1, 0, size, average, variance);
      const C scale = norm::rstd_of(variance, parameter_of<C>(eps));
      norm::normalize_elements(from, factors, shifts, to, size, average, scale);
      internal::write_statistic<T>(mean, row, average);
      internal::write_statistic<T>(rstd, row, scale);
    }
  });
  return result;
}

/// aten::native_group_norm.out
template <class S>
internal::ThreeTensors native_group_norm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    int64_t batch,
    int64_t channels,
    int64_t inner,
    int64_t groups,
    double eps,
    Tensor& out,
    Tensor& mean,
    Tensor& rstd) {
  const internal::ThreeTensors result{out, mean, rstd};
  const auto in_range = [](int64_t value) { return value >= 0 && value <= INT32_MAX; };
  KERNEL_CHECK(
      ctx,
      in_range(batch) && in_range(channels) && in_range(inner) && in_range(groups) && groups > 0 &&
          channels % groups == 0,
      InvalidArgument,
      result,
      "The channels do not divide into the groups");
  const size_t rows = static_cast<size_t>(batch) * static_cast<size_t>(groups);
  const size_t depth = static_cast<size_t>(channels / groups);
  const size_t size = static_cast<size_t>(inner);
  const uint64_t numel = static_cast<uint64_t>(batch * channels);
  KERNEL_CHECK(
      ctx,
      (size == 0 || numel <= SIZE_MAX / size) &&
          numel * size == static_cast<uint64_t>(input.numel()),
      InvalidArgument,
      result,
      "input does not have N * C * HxW elements");
  const SizesType outer[] = {static_cast<SizesType>(batch), static_cast<SizesType>(groups)};
  if (!check_contiguous<S>(ctx, input, out) ||
      !internal::start_norm<S>(ctx, input, weight, bias, static_cast<size_t>(channels), out) ||
      !internal::start_statistics<S>(ctx, input, ArrayRef<SizesType>(outer, 2), rows, mean, rstd)) {
    return result;
  }
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = input.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    const auto factors = internal::parameters_of<T>(weight);
    const auto shifts = internal::parameters_of<T>(bias);
    for (size_t row = 0; row < rows; ++row) {
      C average;
      C variance;
      norm::mean_and_variance(from, 1, 0, depth * size, average, variance);
      const C scale = norm::rstd_of(variance, parameter_of<C>(eps));
      const size_t first = row % static_cast<size_t>(groups) * depth;
      for (size_t channel = first; channel < first + depth; ++channel, from += size, to += size) {
        norm::normalize(
            from,
            to,
            size,
            average,
            factors.is_missing() ? scale : scale * factors[channel],
            shifts.is_missing() ? C(0) : shifts[channel]);
      }
      internal::write_statistic<T>(mean, row, average);
      internal::write_statistic<T>(rstd, row, scale);
    }
  });
  return result;
}

namespace internal {

/// The statistics that a batch normalization keeps between calls.
struct Running {
  const Tensor& mean;
  const Tensor& variance;
};

/**
 * Normalizes by the batch's statistics, which also go into `saved_mean` and
 * `saved_rstd` and, weighted by `momentum`, into the running ones; or by the
 * running statistics.
 */
template <class S>
void batch_norm(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const Running* running,
    bool by_batch,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& saved_mean,
    Tensor& saved_rstd) {
  const auto sizes = input.sizes();
  KERNEL_CHECK(ctx, sizes.size() >= 2, InvalidArgument, , "input has no dim of channels");
  KERNEL_CHECK(
      ctx,
      by_batch || running != nullptr,
      InvalidArgument,
      ,
      "There are no running statistics to normalize by");
  const Split split = split_tensor<S>(input, 1);
  const size_t channels = split.size;
  if (!check_same_order<S>(ctx, input, out) ||
      !start_norm<S>(ctx, input, weight, bias, channels, out) ||
      (running != nullptr &&
       !(check_statistic(ctx, input, running->mean, channels) &&
         check_statistic(ctx, input, running->variance, channels)))) {
    return;
  }
  // If the batch's statistics are not used, none are written.
  const SizesType saved = by_batch ? sizes[1] : 0;
  if ((by_batch || S::has(Variant::DynamicShape)) &&
      !start_statistics<S>(
          ctx,
          input,
          ArrayRef<SizesType>(&saved, 1),
          static_cast<size_t>(saved),
          saved_mean,
          saved_rstd)) {
    return;
  }
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto factors = parameters_of<T>(weight);
    const auto shifts = parameters_of<T>(bias);
    for (size_t channel = 0; channel < channels; ++channel) {
      const size_t step = channels * split.inner;
      const T* const from = input.const_data_ptr<T>() + channel * split.inner;
      T* const to = out.mutable_data_ptr<T>() + channel * split.inner;
      C mean;
      C variance;
      if (by_batch) {
        norm::mean_and_variance(from, split.outer, step, split.inner, mean, variance);
        if (running != nullptr) {
          const C keep = parameter_of<C>(momentum);
          const C kept = C(1) - keep;
          const C count = static_cast<C>(split.outer * split.inner);
          const auto update = [&](const Tensor& statistic, C value) {
            const C old = parameters_of<T>(statistic)[channel];
            write_statistic<T>(statistic, channel, value * keep + old * kept);
          };
          update(running->mean, mean);
          update(running->variance, variance * count / (count - C(1)));
        }
      } else {
        mean = parameters_of<T>(running->mean)[channel];
        variance = parameters_of<T>(running->variance)[channel];
      }
      const C rstd = norm::rstd_of(variance, parameter_of<C>(eps));
      if (by_batch) {
        write_statistic<T>(saved_mean, channel, mean);
        write_statistic<T>(saved_rstd, channel, rstd);
      }
      const C scale = factors.is_missing() ? rstd : rstd * factors[channel];
      const C shift = shifts.is_missing() ? C(0) : shifts[channel];
      for (size_t image = 0; image < split.outer; ++image) {
        norm::normalize(from + image * step, to + image * step, split.inner, mean, scale, shift);
      }
    }
  });
}

} // namespace internal

/// aten::_native_batch_norm_legit_no_training.out
template <class S>
internal::ThreeTensors native_batch_norm_legit_no_training_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const Tensor& running_mean,
    const Tensor& running_var,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& saved_mean,
    Tensor& saved_rstd) {
  const internal::Running running{running_mean, running_var};
  internal::batch_norm<S>(
      ctx, input, weight, bias, &running, false, momentum, eps, out, saved_mean, saved_rstd);
  return {out, saved_mean, saved_rstd};
}

/// aten::_native_batch_norm_legit.no_stats_out
template <class S>
internal::ThreeTensors native_batch_norm_legit_no_stats_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    bool training,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& saved_mean,
    Tensor& saved_rstd) {
  internal::batch_norm<S>(
      ctx, input, weight, bias, nullptr, training, momentum, eps, out, saved_mean, saved_rstd);
  return {out, saved_mean, saved_rstd};
}

/// aten::_native_batch_norm_legit.out
template <class S>
internal::ThreeTensors native_batch_norm_legit_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    Tensor& running_mean,
    Tensor& running_var,
    bool training,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& saved_mean,
    Tensor& saved_rstd) {
  const internal::Running running{running_mean, running_var};
  internal::batch_norm<S>(
      ctx, input, weight, bias, &running, training, momentum, eps, out, saved_mean, saved_rstd);
  return {out, saved_mean, saved_rstd};
}

} // namespace torch::executor::native
