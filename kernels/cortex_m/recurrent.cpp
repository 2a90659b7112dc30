#include "kernels/cortex_m/recurrent.h"

#include <cstddef>

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/requantize.h"
#include "kernels/math/round.h"
#include "kernels/util/aligned.h"

namespace torch::executor::native::cortex_m {

namespace {

/// tanh(i / 32), with 15 bits behind the point.
struct HyperbolicTangents {
  static constexpr int32_t kCount = 256;
  int16_t values[kCount + 1];

  constexpr HyperbolicTangents() : values() {
    for (int32_t i = 0; i <= kCount; ++i) {
      // e^(2x) = (e^(x / 512))^1024, by the exponential's series.
      const double x = i / 32.0 / 512.0;
      double power =
          1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0))));
      for (int32_t j = 0; j < 10; ++j) {
        power *= power;
      }
      const double value = (1.0 - 2.0 / (power + 1.0)) * 32768.0 + 0.5;
      values[i] = static_cast<int16_t>(value > 32767.0 ? 32767.0 : value);
    }
  }
};
constexpr HyperbolicTangents kTangents;

/// tanh of a number with `kBits` + 5 bits behind the point, with 15, between two of the table.
template <int32_t kBits>
ET_INLINE int32_t tangent(int32_t x) {
  constexpr uint32_t kLast = (HyperbolicTangents::kCount << kBits) - 1;
  uint32_t magnitude = x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
  magnitude = magnitude > kLast ? kLast : magnitude;
  const int16_t* const place = kTangents.values + (magnitude >> kBits);
  const auto part = static_cast<int32_t>(magnitude & ((1u << kBits) - 1));
  const int32_t value = place[0] + (((place[1] - place[0]) * part + (1 << (kBits - 1))) >> kBits);
  return x < 0 ? -value : value;
}

/// 1 / (1 + e^-x), of a number with 12 bits behind the point, with 15.
ET_INLINE int32_t sigmoid(int32_t x) {
  return (32769 + tangent<8>(x)) >> 1;
}

/// A product with 15 bits more behind the point, without these.
ET_INLINE int32_t product(int32_t a, int32_t b) {
  return static_cast<int32_t>((int64_t{a} * b + (1 << 14)) >> 15);
}

ET_INLINE int32_t clamped(int32_t value, int32_t limit) {
  return value > limit ? limit : value < -limit ? -limit : value;
}

/// Largest state as int32: float32 holds it exactly.
constexpr int32_t kLargest = 0x7fffff;

/// 2^bits.
float power_of_two(int32_t bits) {
  return static_cast<float>(1 << bits);
}

/// A state with some bits behind the point; NaN is 0.
int32_t integer(float state, int32_t bits) {
  const float value = math::round_to_even(state * power_of_two(bits));
  constexpr auto kLimit = static_cast<float>(kLargest);
  return value >= kLimit ? kLargest
      : value <= -kLimit ? -kLargest
      : value == value   ? static_cast<int32_t>(value)
                         : 0;
}

/// The DSP extension's multiplications of pairs want the elements of four in this order: 0, 2, 1,
/// 3.
ET_INLINE int32_t place_of(int32_t i) {
  return (i & ~3) | (i & 1) << 1 | (i >> 1 & 1);
}

#ifdef __ARM_FEATURE_DSP
/// Two words from where a pointer is, which goes on behind them. Word by word the compiler would
/// load them, as it knows nothing of their alignment.
ET_INLINE void load_two(const uint32_t*& from, uint32_t& first, uint32_t& second) {
  __asm__("ldrd %0, %1, [%2], #8" : "=&r"(first), "=&r"(second), "+r"(from) : : "memory");
}

/// Adds the products of four values, 0 and 2 and then 1 and 3, and of weights.
ET_INLINE int32_t add_four(uint32_t even, uint32_t odd, uint32_t weights, int32_t sum) {
  sum = dot2(static_cast<int16x2_t>(even), even_bytes(weights), sum);
  return dot2(static_cast<int16x2_t>(odd), odd_bytes(weights), sum);
}
#endif

/// Adds the products of a unit's weights for all gates; returns where the weights go on.
template <int kGates>
ET_INLINE const int8_t*
add_products(const int16_t* x, const int8_t* weights, int32_t columns, int32_t* sums) {
  int32_t s0 = 0;
  int32_t s1 = 0;
  int32_t s2 = 0;
  [[maybe_unused]] int32_t s3 = 0;
#ifdef __ARM_FEATURE_DSP
  const auto* values = aligned_cast<const uint32_t>(x);
  const auto* const end = aligned_cast<const uint32_t>(x + columns);
  const auto* words = aligned_cast<const uint32_t>(weights);
  while (values != end) {
    uint32_t even;
    uint32_t odd;
    uint32_t a;
    uint32_t b;
    load_two(values, even, odd);
    load_two(words, a, b);
    s0 = add_four(even, odd, a, s0);
    s1 = add_four(even, odd, b, s1);
    if constexpr (kGates == 4) {
      load_two(words, a, b);
      s3 = add_four(even, odd, b, s3);
    } else {
      a = *words++;
    }
    s2 = add_four(even, odd, a, s2);
  }
  weights = reinterpret_cast<const int8_t*>(words);
#else
  for (int32_t i = 0; i < columns; i += 4) {
    const auto add = [&](const int8_t* four, int32_t sum) __attribute__((always_inline)) {
      sum = wrapping_add(sum, x[i] * four[0]);
      sum = wrapping_add(sum, x[i + 1] * four[2]);
      sum = wrapping_add(sum, x[i + 2] * four[1]);
      return wrapping_add(sum, x[i + 3] * four[3]);
    };
    s0 = add(weights, s0);
    s1 = add(weights + 4, s1);
    s2 = add(weights + 8, s2);
    if constexpr (kGates == 4) {
      s3 = add(weights + 12, s3);
    }
    weights += 4 * kGates;
  }
#endif
  sums[0] = s0;
  sums[1] = s1;
  sums[2] = s2;
  if constexpr (kGates == 4) {
    sums[3] = s3;
  }
  return weights;
}

/// The sums of the gates of a unit: over the input and over the hidden state apart.
template <int kGates>
struct Gates {
  int32_t from_input[static_cast<size_t>(kGates)];
  int32_t from_hidden[static_cast<size_t>(kGates)];
  const int32_t* factors;

  /// Both sums of a gate, with their bias.
  ET_INLINE int32_t operator[](int gate) const {
    return wrapping_add(
        input(gate, gate), multiply_rounded(from_hidden[gate], factors[kGates + gate]));
  }
  ET_INLINE int32_t input(int gate, int bias) const {
    return wrapping_add(
        multiply_rounded(from_input[gate], factors[gate]), factors[2 * kGates + bias]);
  }
  ET_INLINE int32_t hidden(int gate, int bias) const {
    return wrapping_add(
        multiply_rounded(from_hidden[gate], factors[kGates + gate]), factors[2 * kGates + bias]);
  }
};

/// Quantizes the hidden state to int8.
struct Output {
  int32_t factor;
  int32_t shift;
  int32_t offset;

  explicit Output(const QuantizedRecurrentLayer& layer)
      : factor(layer.out_factor),
        shift(layer.out_shift),
        offset(layer.out_zero_point * (1 << layer.out_shift) + (1 << (layer.out_shift - 1))) {}

  ET_INLINE int8_t operator()(int32_t hidden) const {
    return Range{-128, 127}.clamp(wrapping_add(hidden * factor, offset) >> shift);
  }
};

/**
 * Runs through batch and time.
 *
 * @param[in] start Called with the number of the batch's element and of the unit; returns its
 *     hidden state with 16 bits and sets its memory.
 * @param[in] step Called with a unit's gates and its memory, which it changes; returns its hidden
 *     state with 16 bits.
 * @param[in] finish As start, with the memory and the hidden state after the last step.
 */
template <int kGates, class Start, class Step, class Finish>
ET_INLINE void run(
    const QuantizedRecurrentLayer& layer,
    const Start& start,
    const Step& step,
    const Finish& finish) {
  const int32_t size = layer.hidden_size;
  const int32_t in_columns = recurrent_columns(layer.in_features);
  const int32_t columns = in_columns + recurrent_columns(size);
  const int32_t stride = layer.batch_first ? 1 : layer.batch;
  const Output output(layer);
  // Input and hidden state, and the next hidden state behind where the next input comes.
  int16_t* current = layer.work;
  int16_t* next = current + columns;
  auto* const memory = aligned_cast<int32_t>(current + 2 * columns);
  for (int32_t i = 0; i < 2 * columns; ++i) {
    current[i] = 0;
  }
  for (int32_t n = 0; n < layer.batch; ++n) {
    for (int32_t i = 0; i < size; ++i) {
      current[in_columns + place_of(i)] = static_cast<int16_t>(start(n * size + i, memory[i]));
    }
    const int32_t first = layer.batch_first ? n * layer.steps : n;
    for (int32_t i = 0; i < layer.steps; ++i) {
      const int32_t row = first + (layer.reverse ? layer.steps - 1 - i : i) * stride;
      const int8_t* const in = layer.in + row * layer.in_features;
      for (int32_t j = 0; j < layer.in_features; ++j) {
        current[place_of(j)] = static_cast<int16_t>((in[j] - layer.input_zero_point) * 128);
      }
      int8_t* const out = layer.out + row * size;
      const int8_t* weights = layer.weights;
      Gates<kGates> gates;
      gates.factors = layer.factors;
      for (int32_t j = 0; j < size; ++j) {
        weights = add_products<kGates>(current, weights, in_columns, gates.from_input);
        weights = add_products<kGates>(
            current + in_columns, weights, columns - in_columns, gates.from_hidden);
        const int32_t hidden = step(gates, memory[j]);
        next[in_columns + place_of(j)] = static_cast<int16_t>(hidden);
        out[j] = output(hidden);
        gates.factors += 2 * kGates + 4;
      }
      int16_t* const last = current;
      current = next;
      next = last;
    }
    for (int32_t i = 0; i < size; ++i) {
      finish(n * size + i, memory[i], current[in_columns + place_of(i)]);
    }
  }
}

float state_of(const float* initial, int32_t i) {
  return initial == nullptr ? 0.0f : initial[i];
}

} // namespace

void quantized_lstm(const QuantizedRecurrentLayer& layer) {
  constexpr int32_t kCellBits = 16;
  const int32_t bits = layer.state_bits;
  run<4>(
      layer,
      [&](int32_t i, int32_t& cell) {
        cell = integer(state_of(layer.cell0, i), kCellBits);
        return clamped(integer(state_of(layer.hidden0, i), bits), 32767);
      },
      [bits](const Gates<4>& gates, int32_t& cell) {
        const int32_t input = sigmoid(gates[0]) * tangent<7>(gates[2]);
        const int64_t kept = int64_t{sigmoid(gates[1])} * cell;
        cell =
            clamped(static_cast<int32_t>((kept + 2 * int64_t{input} + (1 << 14)) >> 15), kLargest);
        const int32_t hidden = sigmoid(gates[3]) * tangent<7>((cell + 8) >> (kCellBits - 12));
        return (hidden + (1 << (29 - bits))) >> (30 - bits);
      },
      [&](int32_t i, int32_t cell, int32_t hidden) {
        layer.hidden[i] = static_cast<float>(hidden) / power_of_two(bits);
        layer.cell[i] = static_cast<float>(cell) / power_of_two(kCellBits);
      });
}

void quantized_gru(const QuantizedRecurrentLayer& layer) {
  // The state has more bits than the multiplied one, because it changes by small fractions of
  // itself.
  constexpr int32_t kMoreBits = 8;
  const int32_t bits = layer.state_bits + kMoreBits;
  const auto short_of = [](int32_t state) {
    return clamped(wrapping_add(state, 1 << (kMoreBits - 1)) >> kMoreBits, 32767);
  };
  run<3>(
      layer,
      [&](int32_t i, int32_t& state) {
        state = integer(state_of(layer.hidden0, i), bits);
        return short_of(state);
      },
      [bits, short_of](const Gates<3>& gates, int32_t& state) {
        const int32_t recalled = product(gates.hidden(2, 3), sigmoid(gates[0]));
        const int32_t fresh =
            tangent<7>(wrapping_add(gates.input(2, 2), recalled)) * (1 << (bits - 15));
        state = wrapping_add(fresh, product(wrapping_add(state, -fresh), sigmoid(gates[1])));
        return short_of(state);
      },
      [&](int32_t i, int32_t state, int32_t) {
        layer.hidden[i] = static_cast<float>(state) / power_of_two(bits);
      });
}

} // namespace torch::executor::native::cortex_m
