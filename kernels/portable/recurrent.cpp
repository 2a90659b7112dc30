#include "kernels/portable/recurrent.h"

#include <cstddef>

#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/portable/gemm.h"

namespace torch::executor::native {

namespace {

void start_from(const float* initial, float* state, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    state[i] = initial == nullptr ? 0.0f : initial[i];
  }
}

/// Sets out = bias + weight in, for one vector.
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
void run(const RecurrentLayer& layer, const Step& step) {
  const int32_t size = layer.hidden_size;
  const int32_t stride = layer.batch_first ? 1 : layer.batch;
  float* state = layer.hidden;
  start_from(layer.hidden0, state, layer.batch * size);
  for (int32_t n = 0; n < layer.batch; ++n, state += size) {
    const int32_t first = layer.batch_first ? n * layer.steps : n;
    for (int32_t i = 0; i < layer.steps; ++i) {
      const int32_t row = first + (layer.reverse ? layer.steps - 1 - i : i) * stride;
      step(layer.in + row * layer.in_features, state, n);
      float* const to = layer.out + row * size;
      for (int32_t j = 0; j < size; ++j) {
        to[j] = state[j];
      }
    }
  }
}

// It is out of line, as in run() the compiler would keep all of these in memory.
ET_NOINLINE void lstm_step(const float* gates, int32_t size, float* memory, float* state) {
  for (int32_t i = 0; i < size; ++i) {
    const float kept = math::sigmoid(gates[size + i]) * memory[i];
    memory[i] = kept + math::sigmoid(gates[i]) * math::tanh(gates[2 * size + i]);
    state[i] = math::sigmoid(gates[3 * size + i]) * math::tanh(memory[i]);
  }
}

ET_NOINLINE void gru_step(const float* gates, int32_t size, float* state) {
  const float* const recalled = gates + 3 * size;
  for (int32_t i = 0; i < size; ++i) {
    const float reset = math::sigmoid(gates[i]);
    const float update = math::sigmoid(gates[size + i]);
    const float next = math::tanh(gates[2 * size + i] + reset * recalled[i]);
    state[i] = next + update * (state[i] - next);
  }
}

} // namespace

void lstm(const RecurrentLayer& layer) {
  const int32_t size = layer.hidden_size;
  start_from(layer.cell0, layer.cell, layer.batch * size);
  run(layer, [&](const float* x, float* state, int32_t n) {
    product(x, layer.input_weight, layer.bias, layer.gates, layer.in_features, 4 * size);
    // A sum is read before it is written.
    product(state, layer.hidden_weight, layer.gates, layer.gates, size, 4 * size);
    lstm_step(layer.gates, size, layer.cell + n * size, state);
  });
}

void gru(const RecurrentLayer& layer) {
  const int32_t size = layer.hidden_size;
  run(layer, [&](const float* x, float* state, int32_t) {
    product(x, layer.input_weight, layer.bias, layer.gates, layer.in_features, 3 * size);
    product(state, layer.hidden_weight, layer.gates, layer.gates, size, 2 * size);
    product(
        state,
        layer.hidden_weight + 2 * size * size,
        layer.bias == nullptr ? nullptr : layer.bias + 3 * size,
        layer.gates + 3 * size,
        size,
        size);
    gru_step(layer.gates, size, state);
  });
}

} // namespace torch::executor::native
