#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/recurrent.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/optional_tensor.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// The arguments of a recurrent layer's operator; null if missing, such as the cell of a GRU.
struct RecurrentArguments {
  const Tensor& input;
  const Tensor* hidden0;
  const Tensor* cell0;
  const Tensor& input_weight;
  const Tensor& hidden_weight;
  const Tensor* bias;
  bool reverse;
  bool batch_first;
  const Tensor& out;
  const Tensor& hidden;
  const Tensor* cell;
  const Tensor& gates;
};

/**
 * Describes a layer of `gates` gates, whose tensors must have the shapes in RecurrentLayer, all
 * float32.
 */
bool describe_layer(
    KernelRuntimeContext& ctx,
    const RecurrentArguments& arguments,
    int32_t gates,
    RecurrentLayer& layer);

/// Does the same as describe_layer(), for contiguous tensors; fails the context (NotSupported) for
/// others.
template <class S>
bool check_layer(
    KernelRuntimeContext& ctx,
    const RecurrentArguments& arguments,
    int32_t gates,
    RecurrentLayer& layer) {
  return check_contiguous<S>(
             ctx,
             arguments.input,
             arguments.input_weight,
             arguments.hidden_weight,
             arguments.out,
             arguments.hidden,
             arguments.gates) &&
      check_contiguous_or_null<S>(ctx, arguments.hidden0) &&
      check_contiguous_or_null<S>(ctx, arguments.cell0) &&
      check_contiguous_or_null<S>(ctx, arguments.cell) &&
      describe_layer(ctx, arguments, gates, layer);
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
  const RecurrentArguments arguments{
      input,
      tensor_or_null(hidden0),
      tensor_or_null(cell0),
      input_weight,
      hidden_weight,
      tensor_or_null(bias),
      reverse,
      batch_first,
      out,
      hidden,
      &cell,
      gates};
  RecurrentLayer layer;
  if (check_layer<S>(ctx, arguments, 4, layer)) {
    lstm(layer);
  }
  return {out, hidden, cell, gates};
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
  const RecurrentArguments arguments{
      input,
      tensor_or_null(hidden0),
      nullptr,
      input_weight,
      hidden_weight,
      tensor_or_null(bias),
      reverse,
      batch_first,
      out,
      hidden,
      nullptr,
      gates};
  RecurrentLayer layer;
  if (check_layer<S>(ctx, arguments, 3, layer)) {
    gru(layer);
  }
  return {out, hidden, gates};
}

} // namespace torch::executor::native
