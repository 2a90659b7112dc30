#pragma once

#include "kernels/cortex_m/quantize.h"
#include "kernels/cortex_m/runs.h"
#include "kernels/soft_double.h"
#include "kernels/util/dtypes.h"

namespace torch::executor::native::cortex_m {

/**
 * Takes the parameters of a quantization to `dtype` (int8 or int16) but its inverse scale, and
 * returns its scale. Fails the context (InvalidArgument) and returns 0 for a scale that is not
 * positive and finite, or a range or zero point that the dtype does not hold.
 */
float check_quantization(
    KernelRuntimeContext& ctx,
    double scale,
    int64_t zero_point,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    Quantization& quantization);

using QuantizedTypes = DtypeList<ScalarType::Char, ScalarType::Short>;

/// Calls `run(from, step, to, count)` for every run of elements of `out` and the corresponding
/// elements of `in`, which may have another dim order.
template <class S, class From, class To, class Run>
void map_runs(KernelRuntimeContext& ctx, const Tensor& in, Tensor& out, Run&& run) {
  each_rows<S>(ctx, {&in}, out, [&](const Rows& rows) {
    const From* from = in.const_data_ptr<From>() + rows.offsets[0];
    To* to = out.mutable_data_ptr<To>() + rows.out_offset;
    for (size_t i = rows.rows; i > 0; --i) {
      run(from, rows.steps[0], to, rows.count);
      from += rows.row_steps[0];
      to += rows.count;
    }
  });
}

/// cortex_m::quantize_per_tensor.out: float32 to int8 or int16, any dim order.
template <class S>
Tensor& quantize_per_tensor_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    double scale,
    int64_t zero_point,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    Tensor& out) {
  Quantization quantization;
  KERNEL_CHECK(
      ctx,
      input.scalar_type() == ScalarType::Float && out.scalar_type() == dtype,
      InvalidType,
      out,
      "quantize takes float32, and its result has the dtype it says");
  if (check_quantization(ctx, scale, zero_point, quant_min, quant_max, dtype, quantization) != 0) {
    quantization.inverse_scale = inverse(scale);
    dispatch<QuantizedTypes, S>(ctx, dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      map_runs<S, float, T>(ctx, input, out, [&](auto... run) { quantize(quantization, run...); });
    });
  }
  return out;
}

/// cortex_m::dequantize_per_tensor.out: int8 or int16 to float32, any dim order.
template <class S>
Tensor& dequantize_per_tensor_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    double scale,
    int64_t zero_point,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    Tensor& out) {
  Quantization quantization;
  KERNEL_CHECK(
      ctx,
      input.scalar_type() == dtype && out.scalar_type() == ScalarType::Float,
      InvalidType,
      out,
      "dequantize gives float32, and its input has the dtype it says");
  const float factor =
      check_quantization(ctx, scale, zero_point, quant_min, quant_max, dtype, quantization);
  if (factor != 0) {
    dispatch<QuantizedTypes, S>(ctx, dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      map_runs<S, T, float>(
          ctx, input, out, [&](auto... run) { dequantize(quantization, factor, run...); });
    });
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
