#include "kernels/portable/op_recurrent.h"

namespace torch {
namespace executor {
namespace native {

namespace {

bool has_sizes(const Tensor& tensor, ArrayRef<SizesType> sizes) {
  const auto actual = tensor.sizes();
  if (tensor.scalar_type() != ScalarType::Float || actual.size() != sizes.size()) {
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (actual[i] != sizes[i]) {
      return false;
    }
  }
  return true;
}

bool has_sizes(const std::optional<Tensor>& tensor, ArrayRef<SizesType> sizes) {
  return !tensor.has_value() || has_sizes(*tensor, sizes);
}

} // namespace

bool check_recurrent(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& hidden0,
    const std::optional<Tensor>& cell0,
    const Tensor& input_weight,
    const Tensor& hidden_weight,
    const std::optional<Tensor>& bias,
    int32_t gates,
    bool reverse,
    bool batch_first,
    RecurrentShape& shape) {
  const auto sizes = input.sizes();
  KERNEL_CHECK(
      ctx,
      input.scalar_type() == ScalarType::Float && sizes.size() == 3 &&
          hidden_weight.sizes().size() == 2 && hidden_weight.sizes()[1] < 0x1000000,
      InvalidArgument,
      false,
      "input is not float32 of three dims, or hidden_weight not of two");
  shape.batch = sizes[batch_first ? 0 : 1];
  shape.steps = sizes[batch_first ? 1 : 0];
  shape.in_features = sizes[2];
  shape.hidden = hidden_weight.sizes()[1];
  shape.reverse = reverse;
  shape.batch_first = batch_first;
  const SizesType state[] = {shape.batch, shape.hidden};
  const SizesType from_input[] = {gates * shape.hidden, shape.in_features};
  const SizesType from_hidden[] = {gates * shape.hidden, shape.hidden};
  const SizesType biases[] = {4 * shape.hidden};
  KERNEL_CHECK(
      ctx,
      has_sizes(input_weight, {from_input, 2}) && has_sizes(hidden_weight, {from_hidden, 2}) &&
          has_sizes(bias, {biases, 1}),
      InvalidArgument,
      false,
      "The weights or the bias are not those of %d gates, float32",
      static_cast<int>(gates));
  KERNEL_CHECK(
      ctx,
      has_sizes(hidden0, {state, 2}) && has_sizes(cell0, {state, 2}),
      InvalidArgument,
      false,
      "A state is not [batch, hidden], float32");
  return true;
}

bool check_recurrent_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes) {
  KERNEL_CHECK(
      ctx,
      has_sizes(out, sizes),
      InvalidArgument,
      false,
      "An output does not have the shape of the result, float32");
  return true;
}

} // namespace native
} // namespace executor
} // namespace torch
