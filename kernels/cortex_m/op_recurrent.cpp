#include "kernels/cortex_m/op_recurrent.h"

#include "kernels/cortex_m/requantize.h"

namespace torch::executor::native::cortex_m {

bool describe_layer(
    KernelRuntimeContext& ctx,
    const RecurrentArguments& arguments,
    int32_t gates,
    QuantizedRecurrentLayer& layer) {
  const auto in_sizes = arguments.input.sizes();
  const auto hidden_sizes = arguments.hidden.sizes();
  CHECK_ARGUMENT(
      ctx,
      arguments.input.scalar_type() == ScalarType::Char && in_sizes.size() == 3 &&
          in_sizes[2] < 0x10000 && hidden_sizes.size() == 2 && hidden_sizes[1] < 0x10000,
      "input is not int8 of three dims, or hidden not of two");
  const bool batch_first = arguments.batch_first;
  const SizesType batch = in_sizes[batch_first ? 0 : 1];
  const SizesType features = in_sizes[2];
  const SizesType size = hidden_sizes[1];
  const SizesType columns = recurrent_columns(features) + recurrent_columns(size);
  const SizesType weights[] = {size, columns * gates};
  const SizesType factors[] = {size, 2 * gates + 4};
  CHECK_ARGUMENT(
      ctx,
      is_like(&arguments.weights, ScalarType::Char, {weights, 2}) &&
          is_like(&arguments.factors, ScalarType::Int, {factors, 2}) &&
          (reinterpret_cast<uintptr_t>(arguments.weights.const_data_ptr()) & 3) == 0,
      "The weights or factors are not those of %d gates, in words",
      static_cast<int>(gates));
  const SizesType state[] = {batch, size};
  const SizesType out[] = {in_sizes[0], in_sizes[1], size};
  CHECK_ARGUMENT(
      ctx,
      is_like(arguments.hidden0, ScalarType::Float, {state, 2}) &&
          is_like(arguments.cell0, ScalarType::Float, {state, 2}) &&
          is_like(&arguments.hidden, ScalarType::Float, {state, 2}) &&
          is_like(arguments.cell, ScalarType::Float, {state, 2}) &&
          is_like(&arguments.out, ScalarType::Char, {out, 3}),
      "A state is not [batch, hidden], float32, or out does not have the shape of the result, "
      "int8");
  CHECK_ARGUMENT(
      ctx,
      arguments.work.scalar_type() == ScalarType::Short &&
          arguments.work.numel() >= recurrent_work(features, size) &&
          (reinterpret_cast<uintptr_t>(arguments.work.const_data_ptr()) & 3) == 0,
      "work has no room for the layer");
  if (!check_offset(ctx, arguments.input_zero_point, layer.input_zero_point, 0x80) ||
      !check_offset(ctx, arguments.out_zero_point, layer.out_zero_point, 0x80)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      arguments.state_bits >= 11 && arguments.state_bits <= 15 && arguments.out_shift > 0 &&
          arguments.out_shift <= 22 && arguments.out_factor >= 0 && arguments.out_factor < 0x8000,
      "The scale of the hidden state or of the output is out of range");
  layer.batch = batch;
  layer.steps = in_sizes[batch_first ? 1 : 0];
  layer.in_features = features;
  layer.hidden_size = size;
  layer.reverse = arguments.reverse;
  layer.batch_first = batch_first;
  layer.in = arguments.input.const_data_ptr<int8_t>();
  layer.hidden0 = data_or_null(arguments.hidden0);
  layer.cell0 = data_or_null(arguments.cell0);
  layer.weights = arguments.weights.const_data_ptr<int8_t>();
  layer.factors = arguments.factors.const_data_ptr<int32_t>();
  layer.state_bits = static_cast<int32_t>(arguments.state_bits);
  layer.out_factor = static_cast<int32_t>(arguments.out_factor);
  layer.out_shift = static_cast<int32_t>(arguments.out_shift);
  layer.out = arguments.out.mutable_data_ptr<int8_t>();
  layer.hidden = arguments.hidden.mutable_data_ptr<float>();
  layer.cell = arguments.cell == nullptr ? nullptr : arguments.cell->mutable_data_ptr<float>();
  layer.work = arguments.work.mutable_data_ptr<int16_t>();
  return true;
}

} // namespace torch::executor::native::cortex_m
