#pragma once

#include <optional>

#include "kernels/quantized/affine.h"

namespace torch::executor::native {

/**
 * quantized_decomposed::add.out: adds the numbers that two quantized tensors of one shape and dtype
 * represent, and quantizes the sums.
 */
template <class S>
Tensor& quantized_add_out(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    double a_scale,
    int64_t a_zero_point,
    int64_t a_quant_min,
    int64_t a_quant_max,
    const Tensor& b,
    double b_scale,
    int64_t b_zero_point,
    int64_t b_quant_min,
    int64_t b_quant_max,
    double out_scale,
    int64_t out_zero_point,
    int64_t out_quant_min,
    int64_t out_quant_max,
    Tensor& out) {
  QuantizedRange a_range;
  QuantizedRange b_range;
  QuantizedRange range;
  KERNEL_CHECK(
      ctx, same_sizes(a.sizes(), b.sizes()), InvalidArgument, out, "a and b differ in shape");
  if (!check_same_order<S>(ctx, a, b, out) || !same_dtype_or_fail(ctx, a, b) ||
      !same_dtype_or_fail(ctx, a, out) || !shape_out<S>(ctx, out, a.sizes()) ||
      !a_range.init(ctx, a_quant_min, a_quant_max, a.scalar_type(), a) ||
      !b_range.init(ctx, b_quant_min, b_quant_max, b.scalar_type(), b) ||
      !range.init(ctx, out_quant_min, out_quant_max, out.scalar_type(), out)) {
    return out;
  }
  KERNEL_CHECK(ctx, same_dim_order(a, out), NotSupported, out, "a and out lie in different orders");
  dispatch<QuantizedTypes, S>(ctx, a.scalar_type(), [&](auto tag) {
    using Q = typename decltype(tag)::type;
    const float a_factor = float_of(a_scale);
    const float a_offset = float_of_int(a_zero_point);
    const float b_factor = float_of(b_scale);
    const float b_offset = float_of_int(b_zero_point);
    const float factor = float_of(out_scale);
    const float offset = float_of_int(out_zero_point);
    const Q* x = a.const_data_ptr<Q>();
    const Q* y = b.const_data_ptr<Q>();
    Q* to = out.mutable_data_ptr<Q>();
    for (auto count = out.numel(); count > 0; --count) {
      float left;
      float right;
      dequantize_run(x++, &left, 1, a_factor, a_offset);
      dequantize_run(y++, &right, 1, b_factor, b_offset);
      const float sum = left + right;
      quantize_run(&sum, to++, 1, factor, offset, range, false);
    }
  });
  return out;
}

/// The sizes of a product of floats with quantized weights, which have a scale
/// for each row of weight, or for each of some equal groups of a row.
struct MixedProduct {
  size_t rows;
  size_t inner;
  size_t columns;
  // Columns of weight that share a scale, and how many such groups there are.
  size_t group;
  size_t groups;

  /// Fails the context (InvalidArgument, InvalidType) and returns false if the
  /// tensors do not fit together.
  ///
  /// @param[in] is_transposed Whether weight is [columns, inner].
  bool init(
      KernelRuntimeContext& ctx,
      const Tensor& input,
      const Tensor& weight,
      const Tensor& scales,
      const std::optional<Tensor>& zero_points,
      bool is_transposed,
      Shape& out_sizes);
};

/// input [rows, inner] times the dequantized int8 weight, summed in float32: mixed_mm and
/// mixed_linear.
template <class S>
Tensor& mixed_product(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const Tensor& scales,
    const std::optional<Tensor>& zero_points,
    bool is_transposed,
    Tensor& out) {
  MixedProduct product;
  Shape out_sizes;
  if (!check_contiguous<S>(ctx, input, weight, out) ||
      !product.init(ctx, input, weight, scales, zero_points, is_transposed, out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  dispatch<RealFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch<RealFloatTypes, S>(ctx, out.scalar_type(), [&](auto out_tag) {
      using R = typename decltype(out_tag)::type;
      const int8_t* const weights = weight.const_data_ptr<int8_t>();
      R* to = out.mutable_data_ptr<R>();
      for (size_t row = 0; row < product.rows; ++row) {
        const T* const from = input.const_data_ptr<T>() + row * product.inner;
        for (size_t column = 0; column < product.columns; ++column) {
          float sum = 0.0f;
          for (size_t k = 0; k < product.inner; ++k) {
            const size_t weight_row = is_transposed ? column : k;
            const size_t weight_column = is_transposed ? k : column;
            const size_t width = is_transposed ? product.inner : product.columns;
            const size_t parameter = weight_row * product.groups + weight_column / product.group;
            float value;
            dequantize_run(
                weights + weight_row * width + weight_column,
                &value,
                1,
                number_at(scales, parameter),
                zero_points.has_value() ? number_at(*zero_points, parameter) : 0.0f);
            sum += convert<float>(from[k]) * value;
          }
          *to++ = convert<R>(sum);
        }
      }
    });
  });
  return out;
}

/// quantized_decomposed::mixed_mm.out: weight is [inner, columns].
template <class S>
Tensor& mixed_mm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const Tensor& weight_scales,
    const std::optional<Tensor>& weight_zero_points,
    Tensor& out) {
  return mixed_product<S>(ctx, input, weight, weight_scales, weight_zero_points, false, out);
}

/// quantized_decomposed::mixed_linear.out: weight is [out_features, in_features].
template <class S>
Tensor& mixed_linear_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const Tensor& weight_scales,
    const std::optional<Tensor>& weight_zero_points,
    std::optional<ScalarType> dtype,
    Tensor& out) {
  return check_out_dtype(ctx, out, dtype)
      ? mixed_product<S>(ctx, input, weight, weight_scales, weight_zero_points, true, out)
      : out;
}

} // namespace torch::executor::native
