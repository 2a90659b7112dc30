#pragma once

#include "kernels/cortex_m/elementwise.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/loop_nest.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Gives `out` the shape that the inputs broadcast to and the walk over all three.
template <class S>
bool walk_binary(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    const Tensor& b,
    const Tensor& out,
    LoopNest& nest) {
  Shape sizes;
  const Tensor* const inputs[] = {&a, &b};
  return broadcast_sizes(ctx, a.sizes(), b.sizes(), sizes) && shape_out<S>(ctx, out, sizes) &&
      nest.init(ctx, out, inputs, 2);
}

/// Calls `run(a, a_step, b, b_step, out, count)` for every run of a walk.
template <class T, class Run>
void for_runs(LoopNest& nest, const Tensor& a, const Tensor& b, Tensor& out, Run&& run) {
  const T* const a_data = a.const_data_ptr<T>();
  const T* const b_data = b.const_data_ptr<T>();
  T* const out_data = out.mutable_data_ptr<T>();
  do {
    run(a_data + nest.offset(0),
        nest.stride(0),
        b_data + nest.offset(1),
        nest.stride(1),
        out_data + nest.out_offset(),
        nest.size());
  } while (nest.next());
}

/// cortex_m::quantized_add.out, any dim order; inputs broadcast.
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
  LoopNest nest;
  if (check_int8(ctx, self, other, out) &&
      check_offset(ctx, self_zero_point, parameters.zero_points[0]) &&
      check_offset(ctx, other_zero_point, parameters.zero_points[1]) &&
      check_offset(ctx, output_zero_point, parameters.zero_points[2]) &&
      check_factor(ctx, self_multiplier, self_shift, parameters.factors[0]) &&
      check_factor(ctx, other_multiplier, other_shift, parameters.factors[1]) &&
      check_factor(ctx, output_multiplier, output_shift, parameters.factors[2]) &&
      check_range(ctx, activation_min, activation_max, parameters.range) &&
      walk_binary<S>(ctx, self, other, out, nest)) {
    for_runs<int8_t>(nest, self, other, out, [&](auto... run) { add(parameters, run...); });
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
  LoopNest nest;
  if (check_int8(ctx, self, other, out) &&
      check_offset(ctx, self_zero_point, parameters.zero_points[0], kMulOffsets) &&
      check_offset(ctx, other_zero_point, parameters.zero_points[1], kMulOffsets) &&
      check_offset(ctx, output_zero_point, parameters.zero_points[2]) &&
      check_factor(ctx, output_multiplier, output_shift, parameters.factor) &&
      walk_binary<S>(ctx, self, other, out, nest)) {
    for_runs<int8_t>(nest, self, other, out, [&](auto... run) { mul(parameters, run...); });
  }
  return out;
}

using ExtremeTypes = DtypeList<ScalarType::Char, ScalarType::Int>;

template <class S, bool kMax>
Tensor&
extreme_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  LoopNest nest;
  if (same_dtype_or_fail(ctx, self, other) && same_dtype_or_fail(ctx, self, out) &&
      walk_binary<S>(ctx, self, other, out, nest)) {
    dispatch<ExtremeTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_runs<T>(
          nest,
          self,
          other,
          out,
          [](const T* a, int32_t a_step, const T* b, int32_t b_step, T* to, size_t count) {
            for (size_t i = 0; i < count; ++i) {
              to[i] = (*a < *b) == kMax ? *b : *a;
              a += a_step;
              b += b_step;
            }
          });
    });
  }
  return out;
}

/// cortex_m::minimum.out: int8 or int32, any dim order; inputs broadcast.
template <class S>
Tensor&
minimum_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return extreme_out<S, false>(ctx, self, other, out);
}

/// cortex_m::maximum.out: int8 or int32, any dim order; inputs broadcast.
template <class S>
Tensor&
maximum_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return extreme_out<S, true>(ctx, self, other, out);
}

/// cortex_m::quantized_activation.out: out = lut[input + 128], any dim order.
template <class S>
Tensor& quantized_activation_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& lut,
    Tensor& out) {
  LoopNest nest;
  const Tensor* const inputs[] = {&input};
  KERNEL_CHECK(ctx, lut.numel() == 256, InvalidArgument, out, "lut does not have 256 elements");
  if (check_int8(ctx, input, lut, out) && shape_out<S>(ctx, out, input.sizes()) &&
      nest.init(ctx, out, inputs, 1)) {
    const int8_t* const table = lut.const_data_ptr<int8_t>();
    const int8_t* const from = input.const_data_ptr<int8_t>();
    int8_t* const to = out.mutable_data_ptr<int8_t>();
    do {
      look_up(table, from + nest.offset(0), nest.stride(0), to + nest.out_offset(), nest.size());
    } while (nest.next());
  }
  return out;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
