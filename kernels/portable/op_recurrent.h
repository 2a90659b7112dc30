#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/recurrent.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/**
 * Checks the arguments of a recurrent layer and describes it: input [steps, batch, features], or
 * batch first, weights of `gates` gates, states [batch, hidden], all float32. Fails the context and
 * returns false if they do not fit together.
 */
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
    RecurrentShape& shape);

/// Checks that an output has the sizes and float32.
bool check_recurrent_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes);

/// The data of an optional tensor; null if there is none.
inline const float* data_or_null(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? tensor->const_data_ptr<float>() : nullptr;
}

/// torch_fusion::lstm.out: see lstm().
template <class S>
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> lstm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& hidden0,
    const std::optional<Tensor>& cell0,
    const Tensor& input_weight,
    const Tensor& hidden_weight,
    const std::optional<Tensor>& bias,
    bool reverse,
    bool batch_first,
    Tensor& out,
    Tensor& hidden,
    Tensor& cell,
    Tensor& gates) {
  const std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> result(out, hidden, cell, gates);
  RecurrentShape shape;
  if ((hidden0.has_value() && !check_contiguous<S>(ctx, *hidden0)) ||
      (cell0.has_value() && !check_contiguous<S>(ctx, *cell0)) ||
      !check_contiguous<S>(ctx, input, input_weight, hidden_weight, out, hidden, cell, gates) ||
      !check_recurrent(
          ctx,
          input,
          hidden0,
          cell0,
          input_weight,
          hidden_weight,
          bias,
          4,
          reverse,
          batch_first,
          shape)) {
    return result;
  }
  const SizesType out_sizes[] = {input.sizes()[0], input.sizes()[1], shape.hidden};
  const SizesType state_sizes[] = {shape.batch, shape.hidden};
  const SizesType gate_sizes[] = {4 * shape.hidden};
  if (check_recurrent_out(ctx, out, {out_sizes, 3}) &&
      check_recurrent_out(ctx, hidden, {state_sizes, 2}) &&
      check_recurrent_out(ctx, cell, {state_sizes, 2}) &&
      check_recurrent_out(ctx, gates, {gate_sizes, 1})) {
    lstm(
        input.const_data_ptr<float>(),
        data_or_null(hidden0),
        data_or_null(cell0),
        input_weight.const_data_ptr<float>(),
        hidden_weight.const_data_ptr<float>(),
        data_or_null(bias),
        out.mutable_data_ptr<float>(),
        hidden.mutable_data_ptr<float>(),
        cell.mutable_data_ptr<float>(),
        gates.mutable_data_ptr<float>(),
        shape);
  }
  return result;
}

/// torch_fusion::gru.out: see gru().
template <class S>
std::tuple<Tensor&, Tensor&, Tensor&> gru_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& hidden0,
    const Tensor& input_weight,
    const Tensor& hidden_weight,
    const std::optional<Tensor>& bias,
    bool reverse,
    bool batch_first,
    Tensor& out,
    Tensor& hidden,
    Tensor& gates) {
  const std::tuple<Tensor&, Tensor&, Tensor&> result(out, hidden, gates);
  RecurrentShape shape;
  if ((hidden0.has_value() && !check_contiguous<S>(ctx, *hidden0)) ||
      !check_contiguous<S>(ctx, input, input_weight, hidden_weight, out, hidden, gates) ||
      !check_recurrent(
          ctx,
          input,
          hidden0,
          std::nullopt,
          input_weight,
          hidden_weight,
          bias,
          3,
          reverse,
          batch_first,
          shape)) {
    return result;
  }
  const SizesType out_sizes[] = {input.sizes()[0], input.sizes()[1], shape.hidden};
  const SizesType state_sizes[] = {shape.batch, shape.hidden};
  const SizesType gate_sizes[] = {4 * shape.hidden};
  if (check_recurrent_out(ctx, out, {out_sizes, 3}) &&
      check_recurrent_out(ctx, hidden, {state_sizes, 2}) &&
      check_recurrent_out(ctx, gates, {gate_sizes, 1})) {
    gru(input.const_data_ptr<float>(),
        data_or_null(hidden0),
        input_weight.const_data_ptr<float>(),
        hidden_weight.const_data_ptr<float>(),
        data_or_null(bias),
        out.mutable_data_ptr<float>(),
        hidden.mutable_data_ptr<float>(),
        gates.mutable_data_ptr<float>(),
        shape);
  }
  return result;
}

} // namespace native
} // namespace executor
} // namespace torch
