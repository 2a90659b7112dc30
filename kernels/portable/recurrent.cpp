#include "kernels/portable/recurrent.h"

#include <cstddef>

#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/portable/gemm.h"

namespace torch {
namespace executor {
namespace native {

namespace {

void start_from(const float* initial, float* state, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    state[i] = initial == nullptr ? 0.0f : initial[i];
  }
}

/// out = bias + weight in, of one vector.
void product(
    const float* in,
    const float* weight,
    const float* bias,
    float* out,
    int32_t in_features,
    int32_t out_features) {
  linear(
      in,
      weight,
      bias,
      out,
      1,
      static_cast<size_t>(in_features),
      static_cast<size_t>(out_features));
}

/**
 * Runs through batch and time.
 *
 * @param[in] step Called with an input, the hidden state that it changes, the number of the batch's
 *     element.
 */
template <class Step>
void run(
    const float* in,
    const float* hidden0,
    float* out,
    float* hidden,
    const RecurrentShape& shape,
    const Step& step) {
  const int32_t stride = shape.batch_first ? 1 : shape.batch;
  start_from(hidden0, hidden, shape.batch * shape.hidden);
  for (int32_t n = 0; n < shape.batch; ++n, hidden += shape.hidden) {
    const int32_t first = shape.batch_first ? n * shape.steps : n;
    for (int32_t i = 0; i < shape.steps; ++i) {
      const int32_t row = first + (shape.reverse ? shape.steps - 1 - i : i) * stride;
      step(in + row * shape.in_features, hidden, n);
      float* const to = out + row * shape.hidden;
      for (int32_t j = 0; j < shape.hidden; ++j) {
        to[j] = hidden[j];
      }
    }
  }
}

} // namespace

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
    const RecurrentShape& shape) {
  const int32_t size = shape.hidden;
  start_from(cell0, cell, shape.batch * size);
  run(in, hidden0, out, hidden, shape, [&](const float* x, float* state, int32_t n) {
    product(x, input_weight, bias, gates, shape.in_features, 4 * size);
    // A sum is read before it is written.
    product(state, hidden_weight, gates, gates, size, 4 * size);
    float* const memory = cell + n * size;
    for (int32_t i = 0; i < size; ++i) {
      const float kept = math::sigmoid(gates[size + i]) * memory[i];
      memory[i] = kept + math::sigmoid(gates[i]) * math::tanh(gates[2 * size + i]);
      state[i] = math::sigmoid(gates[3 * size + i]) * math::tanh(memory[i]);
    }
  });
}

void gru(
    const float* in,
    const float* hidden0,
    const float* input_weight,
    const float* hidden_weight,
    const float* bias,
    float* out,
    float* hidden,
    float* gates,
    const RecurrentShape& shape) {
  const int32_t size = shape.hidden;
  run(in, hidden0, out, hidden, shape, [&](const float* x, float* state, int32_t) {
    product(x, input_weight, bias, gates, shape.in_features, 3 * size);
    product(state, hidden_weight, gates, gates, size, 2 * size);
    float* const recalled = gates + 3 * size;
    product(
        state,
        hidden_weight + 2 * size * size,
        bias == nullptr ? nullptr : bias + 3 * size,
        recalled,
        size,
        size);
    for (int32_t i = 0; i < size; ++i) {
      const float reset = math::sigmoid(gates[i]);
      const float update = math::sigmoid(gates[size + i]);
      const float next = math::tanh(gates[2 * size + i] + reset * recalled[i]);
      state[i] = next + update * (state[i] - next);
    }
  });
}

} // namespace native
} // namespace executor
} // namespace torch
