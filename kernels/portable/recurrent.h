#pragma once

#include <cstdint>

namespace torch::executor::native {

/**
 * One layer of a recurrent network in one direction: float32, contiguous. Successive time steps are
 * `batch` elements apart, or adjacent if `batch_first`.
 */
struct RecurrentLayer {
  int32_t batch;
  int32_t steps;
  int32_t in_features;
  int32_t hidden_size;
  // True if steps run from the last to the first.
  bool reverse;
  bool batch_first;
  // [steps, batch, in_features], or [batch, steps, in_features].
  const float* in;
  // The states before the first step, [batch, hidden_size] each; null: zeros.
  const float* hidden0;
  const float* cell0;
  // [gates * hidden_size, in_features] and [gates * hidden_size, hidden_size].
  const float* input_weight;
  const float* hidden_weight;
  // [4 * hidden_size]; null: zeros.
  const float* bias;
  // [steps, batch, hidden_size], or [batch, steps, hidden_size].
  float* out;
  // The states after the last step, as those before the first.
  float* hidden;
  float* cell;
  // Room for 4 * hidden_size values.
  float* gates;
};

/**
 * An LSTM's layer (S. Hochreiter and J. Schmidhuber, Long short-term memory, 1997, as
 * torch.nn.LSTM defines it): gates are input, forget, cell and output; the bias is the sum of both.
 */
void lstm(const RecurrentLayer& layer);

/**
 * A GRU's layer (K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, as
 * torch.nn.GRU defines it), without a cell: gates are reset, update and new; the bias is of reset
 * and update the sum of both, then of new that of the input and that of the hidden state.
 */
void gru(const RecurrentLayer& layer);

} // namespace torch::executor::native
