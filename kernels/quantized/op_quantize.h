#pragma once

#include <limits>
#include <optional>

#include "kernels/quantized/affine.h"
#include "kernels/util/optional_tensor.h"

/**
 * Quantization and dequantization with parameters for a whole tensor, for each index of a dim, or
 * for each token: the elements of one index of all dims but the last.
 */
namespace torch::executor::native {

/// Divides a tensor into channels; fails the context (InvalidArgument) and returns false for a dim
/// out of range.
bool split_channels(KernelRuntimeContext& ctx, const Tensor& input, int64_t axis, Split& split);
Split split_tokens(const Tensor& input);
Split whole(const Tensor& input);

/// Returns whether the elements of both tensors have the same order, and can be viewed as `split`;
/// fails the context (InvalidArgument, NotSupported) and returns false otherwise.
bool check_order(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& out,
    const Split& split);

/**
 * All quantize_* operators.
 *
 * @param[in] split How input divides into channels; parameters has a pair for each.
 * @param[in] dtype What out must hold.
 * @param[in] rounds_last See quantize_run().
 */
template <class S>
Tensor& quantize(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const AffineParameters& parameters,
    const Split& split,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    bool rounds_last,
    Tensor& out) {
  QuantizedRange range;
  if (!shape_out<S>(ctx, out, input.sizes()) || !check_order(ctx, input, out, split) ||
      !range.init(ctx, quant_min, quant_max, dtype, out) || !parameters.check(ctx, split.size)) {
    return out;
  }
  dispatch<QuantizedTypes, S>(ctx, dtype, [&](auto out_tag) {
    using Q = typename decltype(out_tag)::type;
    dispatch<RealFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* from = input.const_data_ptr<T>();
      Q* to = out.mutable_data_ptr<Q>();
      for (size_t i = 0; i < split.outer * split.size; ++i) {
        const size_t channel = i % split.size;
        quantize_run(
            from,
            to,
            split.inner,
            parameters.scale(channel),
            parameters.zero_point(channel),
            range,
            rounds_last);
        from += split.inner;
        to += split.inner;
      }
    });
  });
  return out;
}

/**
 * All dequantize_* operators.
 *
 * @param[in] split As for quantize().
 * @param[in] dtype What input must hold.
 * @param[in] out_dtype What out must hold, if given.
 */
template <class S>
Tensor& dequantize(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const AffineParameters& parameters,
    const Split& split,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    const std::optional<ScalarType>& out_dtype,
    Tensor& out) {
  QuantizedRange range;
  if (!check_out_dtype(ctx, out, out_dtype) || !shape_out<S>(ctx, out, input.sizes()) ||
      !check_order(ctx, input, out, split) ||
      !range.init(ctx, quant_min, quant_max, dtype, input) || !parameters.check(ctx, split.size)) {
    return out;
  }
  dispatch<QuantizedTypes, S>(ctx, dtype, [&](auto tag) {
    using Q = typename decltype(tag)::type;
    dispatch<StoredFloatTypes, S>(ctx, out.scalar_type(), [&](auto out_tag) {
      using T = typename decltype(out_tag)::type;
      const Q* from = input.const_data_ptr<Q>();
      T* to = out.mutable_data_ptr<T>();
      for (size_t i = 0; i < split.outer * split.size; ++i) {
        const size_t channel = i % split.size;
        dequantize_run(
            from, to, split.inner, parameters.scale(channel), parameters.zero_point(channel));
        from += split.inner;
        to += split.inner;
      }
    });
  });
  return out;
}

/// quantized_decomposed::quantize_per_tensor.out and quantize_per_tensor.Tensor_out, and
/// quantize_per_token.out, which adds the zero point before it rounds.
template <class S, auto& kSplit, bool kRoundsLast, class Scale, class ZeroPoint>
Tensor& quantize_split_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    Scale scale,
    ZeroPoint zero_point,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    Tensor& out) {
  const AffineParameters parameters(scale, zero_point);
  return quantize<S>(
      ctx, input, parameters, kSplit(input), quant_min, quant_max, dtype, kRoundsLast, out);
}
template <class S>
constexpr auto& quantize_per_tensor_out = quantize_split_out<S, whole, false, double, int64_t>;
template <class S>
constexpr auto& quantize_per_tensor_tensor_out =
    quantize_split_out<S, whole, false, const Tensor&, const Tensor&>;
template <class S>
constexpr auto& quantize_per_token_out =
    quantize_split_out<S, split_tokens, true, const Tensor&, const Tensor&>;

/// quantized_decomposed::quantize_per_channel.out
template <class S>
Tensor& quantize_per_channel_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& scales,
    const Tensor& zero_points,
    int64_t axis,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    Tensor& out) {
  Split split;
  const AffineParameters parameters(scales, &zero_points);
  return split_channels(ctx, input, axis, split)
      ? quantize<S>(ctx, input, parameters, split, quant_min, quant_max, dtype, false, out)
      : out;
}

/// quantized_decomposed::dequantize_per_tensor.out, dequantize_per_tensor.Tensor_out and
/// dequantize_per_token.out; `OutDtype` is optional where the schema's argument is.
template <class S, auto& kSplit, class OutDtype, class Scale, class ZeroPoint>
Tensor& dequantize_split_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    Scale scale,
    ZeroPoint zero_point,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    OutDtype out_dtype,
    Tensor& out) {
  const AffineParameters parameters(scale, zero_point);
  return dequantize<S>(
      ctx, input, parameters, kSplit(input), quant_min, quant_max, dtype, out_dtype, out);
}
template <class S>
constexpr auto& dequantize_per_tensor_out =
    dequantize_split_out<S, whole, std::optional<ScalarType>, double, int64_t>;
template <class S>
constexpr auto& dequantize_per_tensor_tensor_out =
    dequantize_split_out<S, whole, std::optional<ScalarType>, const Tensor&, const Tensor&>;
template <class S>
constexpr auto& dequantize_per_token_out =
    dequantize_split_out<S, split_tokens, ScalarType, const Tensor&, const Tensor&>;

/// quantized_decomposed::dequantize_per_channel.out
template <class S>
Tensor& dequantize_per_channel_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& scales,
    const std::optional<Tensor>& zero_points,
    int64_t axis,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    std::optional<ScalarType> out_dtype,
    Tensor& out) {
  Split split;
  const AffineParameters parameters(scales, tensor_or_null(zero_points));
  return split_channels(ctx, input, axis, split)
      ? dequantize<S>(ctx, input, parameters, split, quant_min, quant_max, dtype, out_dtype, out)
      : out;
}

/// The least and the largest of some floats, 0 among them; both are NaN if one of those is.
struct FloatRange {
  float low = 0.0f;
  float high = 0.0f;
};

/// The range of `count` neighbouring elements.
template <class T>
FloatRange range_of(const T* elements, size_t count) {
  FloatRange range;
  for (; count > 0; --count) {
    const float element = convert<float>(*elements++);
    // NaN stays.
    range.low = element < range.low || element != element ? element : range.low;
    range.high = element > range.high || element != element ? element : range.high;
  }
  return range;
}

/// Fails the context (InvalidType, NotSupported) and returns false unless write_parameters() can
/// write to both: a contiguous Float or Double, and a contiguous Int or Long.
bool check_scale_out(KernelRuntimeContext& ctx, const Tensor& scale, const Tensor& zero_point);

/// Writes a scale and a zero point to element `index` of two tensors.
void write_parameters(
    const Tensor& scale,
    const Tensor& zero_point,
    size_t index,
    float scale_value,
    float zero_point_value);

/// quantized_decomposed::choose_qparams.Tensor_out: for all elements, with `eps` the
/// least scale.
template <class S>
void choose_qparams_tensor_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    int64_t quant_min,
    int64_t quant_max,
    double eps,
    ScalarType /*dtype*/,
    Tensor& scale_out,
    Tensor& zero_point_out) {
  constexpr SizesType kOne = 1;
  KERNEL_CHECK(
      ctx,
      input.numel() > 0 && quant_min < quant_max && quant_min <= 0 && quant_max >= 0 &&
          quant_min >= INT32_MIN && quant_max <= INT32_MAX,
      InvalidArgument,
      ,
      "input has no elements, or quant_min and quant_max are no range with 0 in it");
  if (!check_scale_out(ctx, scale_out, zero_point_out) ||
      !shape_out<S>(ctx, scale_out, ArrayRef<SizesType>(&kOne, 1)) ||
      !shape_out<S>(ctx, zero_point_out, ArrayRef<SizesType>(&kOne, 1))) {
    return;
  }
  dispatch<RealFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const FloatRange range =
        range_of(input.const_data_ptr<T>(), static_cast<size_t>(input.numel()));
    const float low = float_of_int(quant_min);
    const float high = float_of_int(quant_max);
    float scale = (range.high - range.low) / float_of_int(quant_max - quant_min);
    const float least = float_of(eps);
    scale = scale < least ? least : scale;
    const float zero_point = math::clamp(low - math::round_to_even(range.low / scale), low, high);
    write_parameters(scale_out, zero_point_out, 0, scale, zero_point);
  });
}

/// quantized_decomposed::choose_qparams_per_token_asymmetric.out: to int8 for each token; of its
/// two errors the zero point takes the smaller.
template <class S>
void choose_qparams_per_token_asymmetric_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    ScalarType /*dtype*/,
    Tensor& scale_out,
    Tensor& zero_point_out) {
  KERNEL_CHECK(
      ctx,
      input.dim() > 0 && input.sizes()[static_cast<size_t>(input.dim()) - 1] > 0,
      InvalidArgument,
      ,
      "input has no elements");
  Shape out_sizes(input.sizes());
  out_sizes.sizes[out_sizes.dims - 1] = 1;
  if (!check_contiguous<S>(ctx, input) || !check_scale_out(ctx, scale_out, zero_point_out) ||
      !shape_out<S>(ctx, scale_out, out_sizes) || !shape_out<S>(ctx, zero_point_out, out_sizes)) {
    return;
  }
  const Split split = split_tokens(input);
  dispatch<RealFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < split.size; ++i) {
      constexpr float kLow = -128.0f;
      constexpr float kHigh = 127.0f;
      const FloatRange range = range_of(input.const_data_ptr<T>() + i * split.inner, split.inner);
      float scale = (range.high - range.low) / (kHigh - kLow);
      constexpr float kLeast = std::numeric_limits<float>::epsilon();
      scale = scale < kLeast ? kLeast : scale;
      const float low = range.low / scale;
      const float high = range.high / scale;
      const float zero_point = (kLow + low) + (kHigh + high) > 0.0f ? kLow - low : kHigh - high;
      write_parameters(
          scale_out,
          zero_point_out,
          i,
          scale,
          math::round_to_even(math::clamp(zero_point, kLow, kHigh)));
    }
  });
}

} // namespace torch::executor::native
