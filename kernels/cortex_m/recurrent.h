#pragma once

#include <cstdint>

namespace torch::executor::native::cortex_m {

/**
 * One layer of a recurrent network in one direction, with int8 input, output and weights.
 * Internally, sums have 32 bits. Operands of gates have 12 fractional bits, gates 15, an LSTM's
 * cell 16 and a GRU's state `state_bits` + 8. States are passed as float32, which represents all of
 * these exactly.
 */
struct QuantizedRecurrentLayer {
  int32_t batch;
  int32_t steps;
  int32_t in_features;
  int32_t hidden_size;
  // True if steps run from the last to the first.
  bool reverse;
  bool batch_first;
  // [steps, batch, in_features], or [batch, steps, in_features].
  const int8_t* in;
  // The states before the first step, [batch, hidden_size] each; null: zeros.
  const float* hidden0;
  const float* cell0;
  // Each hidden unit has the weights of its gates for the input and then for the hidden state, each
  // rounded up to fours with zeros: four of the first gate, four of the second, and so on.
  const int8_t* weights;
  // Each hidden unit has the factors of its gates' sums over the input, those of the sums over the
  // hidden state, and four biases; of a GRU the last two are those of the new gate's two sums.
  const int32_t* factors;
  int32_t input_zero_point;
  // Bits behind the point of the hidden state that weights are multiplied with, 11 to 15.
  int32_t state_bits;
  // The output is (hidden * out_factor >> out_shift) + out_zero_point, rounded.
  int32_t out_factor;
  int32_t out_shift;
  int32_t out_zero_point;
  // [steps, batch, hidden_size], or [batch, steps, hidden_size].
  int8_t* out;
  // The states after the last step, as those before the first.
  float* hidden;
  float* cell;
  // Room for recurrent_work() values, in words.
  int16_t* work;
};

/// Columns of weights that some features take.
constexpr int32_t recurrent_columns(int32_t features) {
  return (features + 3) & ~3;
}

/// int16 values that a layer works in: twice its input and hidden state, and 32 bits per unit.
constexpr int64_t recurrent_work(int32_t in_features, int32_t hidden_size) {
  return 2 * int64_t{recurrent_columns(in_features) + recurrent_columns(hidden_size)} +
      2 * int64_t{hidden_size};
}

/// An LSTM's layer; see lstm() of kernels/portable/recurrent.h. Gates are input, forget, cell and
/// output.
void quantized_lstm(const QuantizedRecurrentLayer& layer);

/// A GRU's layer; see gru() of kernels/portable/recurrent.h. Gates are reset, update and new.
void quantized_gru(const QuantizedRecurrentLayer& layer);

} // namespace torch::executor::native::cortex_m
