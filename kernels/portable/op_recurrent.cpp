#include "kernels/portable/op_recurrent.h"

namespace torch::executor::native {

namespace {

bool has_sizes(const Tensor* tensor, ArrayRef<SizesType> sizes) {
  return is_like(tensor, ScalarType::Float, sizes);
}

} // namespace

bool describe_layer(
    KernelRuntimeContext& ctx,
    const RecurrentArguments& arguments,
    int32_t gates,
    RecurrentLayer& layer) {
  const auto in_sizes = arguments.input.sizes();
  const auto weight_sizes = arguments.hidden_weight.sizes();
  CHECK_ARGUMENT(
      ctx,
      arguments.input.scalar_type() == ScalarType::Float && in_sizes.size() == 3 &&
          weight_sizes.size() == 2 && weight_sizes[1] < 0x1000000,
      "input is not float32 of three dims, or hidden_weight not of two");
  const bool batch_first = arguments.batch_first;
  const SizesType batch = in_sizes[batch_first ? 0 : 1];
  const SizesType size = weight_sizes[1];
  const SizesType from_input[] = {gates * size, in_sizes[2]};
  const SizesType from_hidden[] = {gates * size, size};
  const SizesType four[] = {4 * size};
  CHECK_ARGUMENT(
      ctx,
      has_sizes(&arguments.input_weight, {from_input, 2}) &&
          has_sizes(&arguments.hidden_weight, {from_hidden, 2}) &&
          has_sizes(arguments.bias, {four, 1}),
      "The weights or the bias are not those of %d gates, float32",
      static_cast<int>(gates));
  const SizesType state[] = {batch, size};
  CHECK_ARGUMENT(
      ctx,
      has_sizes(arguments.hidden0, {state, 2}) && has_sizes(arguments.cell0, {state, 2}),
      "A state is not [batch, hidden], float32");
  const SizesType out[] = {in_sizes[0], in_sizes[1], size};
  CHECK_ARGUMENT(
      ctx,
      has_sizes(&arguments.out, {out, 3}) && has_sizes(&arguments.hidden, {state, 2}) &&
          has_sizes(arguments.cell, {state, 2}) && has_sizes(&arguments.gates, {four, 1}),
      "An output does not have the shape of the result, float32");
  layer.batch = batch;
  layer.steps = in_sizes[batch_first ? 1 : 0];
  layer.in_features = in_sizes[2];
  layer.hidden_size = size;
  layer.reverse = arguments.reverse;
  layer.batch_first = batch_first;
  layer.in = arguments.input.const_data_ptr<float>();
  layer.hidden0 = data_or_null(arguments.hidden0);
  layer.cell0 = data_or_null(arguments.cell0);
  layer.input_weight = arguments.input_weight.const_data_ptr<float>();
  layer.hidden_weight = arguments.hidden_weight.const_data_ptr<float>();
  layer.bias = data_or_null(arguments.bias);
  layer.out = arguments.out.mutable_data_ptr<float>();
  layer.hidden = arguments.hidden.mutable_data_ptr<float>();
  layer.cell = arguments.cell == nullptr ? nullptr : arguments.cell->mutable_data_ptr<float>();
  layer.gates = arguments.gates.mutable_data_ptr<float>();
  return true;
}

} // namespace torch::executor::native
