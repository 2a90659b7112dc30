#pragma once

#include <cstdint>

namespace torch {
namespace executor {
namespace native {

/// Sizes of a recurrent layer in one direction. Neighbours in time lie batch elements apart, or
/// next to each other if `batch_first`.
struct RecurrentShape {
  int32_t batch;
  int32_t steps;
  int32_t in_features;
  int32_t hidden;
  bool reverse;
  bool batch_first;
};

/**
 * One layer of an LSTM in one direction (S. Hochreiter and J. Schmidhuber, Long short-term memory,
 * 1997, as torch.nn.LSTM defines it), float32, contiguous.
 *
 * @param[in] in [steps, batch, in_features], or [batch, steps, in_features]; `out` likewise.
 * @param[in] hidden0, cell0 [batch, hidden] each; null: zeros.
 * @param[in] input_weight [4 hidden, in_features], @param[in] hidden_weight [4 hidden, hidden]: of
 * the gates input, forget, cell and output.
 * @param[in] bias [4 hidden]; null: zeros.
 * @param[out] hidden, cell [batch, hidden] each: the state after the last step.
 * @param[out] gates Room for 4 hidden values.
 */
void lstm(
    const float* in,
    const float* hidden0,
    const float* cell0,
    const float* input_weight,
    const float* hidden_weight,
    const float* bias,
    float* out,
    float* hidden,
    float* cell,
    float* gates,
    const RecurrentShape& shape);

/**
 * One layer of a GRU in one direction (K. Cho et al., Learning phrase representations using RNN
 * encoder-decoder, 2014, as torch.nn.GRU defines it). As lstm(), but with three gates: reset,
 * update and new.
 *
 * @param[in] bias [4 hidden]: of reset and update the sum of both biases, then of new that of the
 *     input and that of the hidden state; null: zeros.
 */
void gru(
    const float* in,
    const float* hidden0,
    const float* input_weight,
    const float* hidden_weight,
    const float* bias,
    float* out,
    float* hidden,
    float* gates,
    const RecurrentShape& shape);

} // namespace native
} // namespace executor
} // namespace torch
