#pragma once

#include "kernels/cortex_m/elementwise.h"
#include "kernels/cortex_m/runs.h"
#include "kernels/soft_double.h"
#include "kernels/util/dtypes.h"

namespace torch::executor::native::cortex_m {

/// Calls `go(rows, a, b, out)` for the rows of two int8 inputs that broadcast.
template <class S, class Go>
void each_binary_rows(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    const Tensor& b,
    Tensor& out,
    Go&& go) {
  each_rows<S>(ctx, {&a, &b}, out, [&](const Rows& rows) {
    go(rows,
       a.const_data_ptr<int8_t>(),
       b.const_data_ptr<int8_t>(),
       out.mutable_data_ptr<int8_t>());
  });
}

/// cortex_m::quantized_add.out, any dim order; inputs broadcast. A negative multiplier of `other`
/// subtracts it.
template <class S>
Tensor& quantized_add_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t self_zero_point,
    int64_t self_multiplier,
    int64_t self_shift,
    const Tensor& other,
    int64_t other_zero_point,
    int64_t other_multiplier,
    int64_t other_shift,
    int64_t output_zero_point,
    int64_t output_multiplier,
    int64_t output_shift,
    int64_t activation_min,
    int64_t activation_max,
    Tensor& out) {
  AddParameters parameters;
  if (check_int8(ctx, self, other, out) &&
      check_offset(ctx, self_zero_point, parameters.zero_points[0]) &&
      check_offset(ctx, other_zero_point, parameters.zero_points[1]) &&
      check_offset(ctx, output_zero_point, parameters.zero_points[2]) &&
      check_factor(ctx, self_multiplier, self_shift, parameters.factors[0]) &&
      check_factor(ctx, other_multiplier, other_shift, parameters.factors[1]) &&
      check_factor(ctx, output_multiplier, output_shift, parameters.factors[2]) &&
      check_range(ctx, activation_min, activation_max, parameters.range)) {
    const bool subtracts = take_sign(parameters);
    each_binary_rows<S>(ctx, self, other, out, [&](auto... rows) {
      constexpr auto kAdd = S::has(Variant::Broadcast) ? &add_broadcast : &add;
      if (subtracts) {
        subtract<kAdd>(parameters, rows...);
      } else {
        kAdd(parameters, rows...);
      }
    });
  }
  return out;
}

/// cortex_m::quantized_mul.out, any dim order; inputs broadcast.
template <class S>
Tensor& quantized_mul_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t self_zero_point,
    const Tensor& other,
    int64_t other_zero_point,
    int64_t output_zero_point,
    int64_t output_multiplier,
    int64_t output_shift,
    Tensor& out) {
  MulParameters parameters;
  if (check_int8(ctx, self, other, out) &&
      check_offset(ctx, self_zero_point, parameters.zero_points[0], kMulOffsets) &&
      check_offset(ctx, other_zero_point, parameters.zero_points[1], kMulOffsets) &&
      check_offset(ctx, output_zero_point, parameters.zero_points[2]) &&
      check_factor(ctx, output_multiplier, output_shift, parameters.factor)) {
    each_binary_rows<S>(ctx, self, other, out, [&](auto... rows) { mul(parameters, rows...); });
  }
  return out;
}

/// cortex_m::quantized_div.out of ExecuTorch 1.5, any dim order; a division by zero gives the zero
/// point of the output.
template <class S>
Tensor& quantized_div_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t self_zero_point,
    const Tensor& other,
    int64_t other_zero_point,
    int64_t output_zero_point,
    double output_scale,
    Tensor& out) {
  int32_t zero_points[3];
  KERNEL_CHECK(
      ctx, is_finite(output_scale), InvalidArgument, out, "The scale of a division is not finite");
  if (check_int8(ctx, self, other, out) && check_offset(ctx, self_zero_point, zero_points[0]) &&
      check_offset(ctx, other_zero_point, zero_points[1]) &&
      check_offset(ctx, output_zero_point, zero_points[2])) {
    const Quantization quantization = {
        float_of(output_scale), static_cast<float>(zero_points[2]), -128, 127};
    each_binary_rows<S>(
        ctx, self, other, out, [&](const Rows& rows, const int8_t* a, const int8_t* b, int8_t* to) {
          divide(quantization, zero_points, rows, a, b, to);
        });
  }
  return out;
}

using ExtremeTypes = DtypeList<ScalarType::Char, ScalarType::Int>;

/// Does the same as choose() for int8 numbers.
template <bool kMax>
void choose(const Rows& rows, const int32_t* a, const int32_t* b, int32_t* out) {
  each_pair(rows, a, b, out, [](int32_t x, int32_t y) { return (x < y) == kMax ? y : x; });
}

/// cortex_m::minimum.out and maximum.out: int8 or int32, any dim order; inputs broadcast.
template <class S, bool kMax>
Tensor&
extreme_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (same_dtype_or_fail(ctx, self, other) && same_dtype_or_fail(ctx, self, out)) {
    dispatch<ExtremeTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      each_rows<S>(ctx, {&self, &other}, out, [&](const Rows& rows) {
        choose<kMax>(
            rows, self.const_data_ptr<T>(), other.const_data_ptr<T>(), out.mutable_data_ptr<T>());
      });
    });
  }
  return out;
}

template <class S>
constexpr auto& minimum_out = extreme_out<S, false>;
template <class S>
constexpr auto& maximum_out = extreme_out<S, true>;

/// cortex_m::quantized_activation.out: out = lut[input + 128], any dim order.
template <class S>
Tensor& quantized_activation_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& lut,
    Tensor& out) {
  KERNEL_CHECK(ctx, lut.numel() == 256, InvalidArgument, out, "lut does not have 256 elements");
  if (check_int8(ctx, input, lut, out)) {
    each_rows<S>(ctx, {&input}, out, [&](const Rows& rows) {
      const int8_t* from = input.const_data_ptr<int8_t>() + rows.offsets[0];
      int8_t* to = out.mutable_data_ptr<int8_t>() + rows.out_offset;
      for (size_t i = rows.rows; i > 0; --i) {
        look_up(lut.const_data_ptr<int8_t>(), from, rows.steps[0], to, rows.count);
        from += rows.row_steps[0];
        to += rows.count;
      }
    });
  }
  return out;
}

} // namespace torch::executor::native::cortex_m
