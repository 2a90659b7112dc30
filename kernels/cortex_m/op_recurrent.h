#pragma once

#include <optional>
#include <tuple>

#include "kernels/cortex_m/recurrent.h"
#include "kernels/util/optional_tensor.h"

namespace torch::executor::native::cortex_m {

/// The arguments of an int8 recurrent layer's operator; null if missing, such as the cell of a GRU.
struct RecurrentArguments {
  const Tensor& input;
  const Tensor* hidden0;
  const Tensor* cell0;
  const Tensor& weights;
  const Tensor& factors;
  int64_t input_zero_point;
  int64_t state_bits;
  int64_t out_factor;
  int64_t out_shift;
  int64_t out_zero_point;
  bool reverse;
  bool batch_first;
  const Tensor& out;
  const Tensor& hidden;
  const Tensor* cell;
  const Tensor& work;
};

/**
 * Describes a layer of `gates` gates, whose tensors must have the shapes in
 * QuantizedRecurrentLayer.
 */
bool describe_layer(
    KernelRuntimeContext& ctx,
    const RecurrentArguments& arguments,
    int32_t gates,
    QuantizedRecurrentLayer& layer);

/// Does the same as describe_layer(), for contiguous tensors; fails the context (NotSupported) for
/// others.
template <class S>
bool check_layer(
    KernelRuntimeContext& ctx,
    const RecurrentArguments& arguments,
    int32_t gates,
    QuantizedRecurrentLayer& layer) {
  return check_contiguous<S>(ctx, arguments.input, arguments.out, arguments.hidden) &&
      check_contiguous_or_null<S>(ctx, arguments.hidden0) &&
      check_contiguous_or_null<S>(ctx, arguments.cell0) &&
      check_contiguous_or_null<S>(ctx, arguments.cell) &&
      describe_layer(ctx, arguments, gates, layer);
}

/// torch_fusion::quantized_lstm.out: see quantized_lstm().
template <class S>
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> quantized_lstm_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& hidden0,
    const std::optional<Tensor>& cell0,
    const Tensor& weights,
    const Tensor& factors,
    int64_t input_zero_point,
    int64_t state_bits,
    int64_t out_factor,
    int64_t out_shift,
    int64_t out_zero_point,
    bool reverse,
    bool batch_first,
    Tensor& out,
    Tensor& hidden,
    Tensor& cell,
    Tensor& work) {
  const RecurrentArguments arguments{
      input,
      tensor_or_null(hidden0),
      tensor_or_null(cell0),
      weights,
      factors,
      input_zero_point,
      state_bits,
      out_factor,
      out_shift,
      out_zero_point,
      reverse,
      batch_first,
      out,
      hidden,
      &cell,
      work};
  QuantizedRecurrentLayer layer;
  if (check_layer<S>(ctx, arguments, 4, layer)) {
    quantized_lstm(layer);
  }
  return {out, hidden, cell, work};
}

/// torch_fusion::quantized_gru.out: see quantized_gru().
template <class S>
std::tuple<Tensor&, Tensor&, Tensor&> quantized_gru_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const std::optional<Tensor>& hidden0,
    const Tensor& weights,
    const Tensor& factors,
    int64_t input_zero_point,
    int64_t state_bits,
    int64_t out_factor,
    int64_t out_shift,
    int64_t out_zero_point,
    bool reverse,
    bool batch_first,
    Tensor& out,
    Tensor& hidden,
    Tensor& work) {
  const RecurrentArguments arguments{
      input,
      tensor_or_null(hidden0),
      nullptr,
      weights,
      factors,
      input_zero_point,
      state_bits,
      out_factor,
      out_shift,
      out_zero_point,
      reverse,
      batch_first,
      out,
      hidden,
      nullptr,
      work};
  QuantizedRecurrentLayer layer;
  if (check_layer<S>(ctx, arguments, 3, layer)) {
    quantized_gru(layer);
  }
  return {out, hidden, work};
}

} // namespace torch::executor::native::cortex_m
