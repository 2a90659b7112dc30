#pragma once

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// The sums of packed layers on cores without the DSP extension, and on this machine, which runs
/// programs for either.

/// The weight of the second channel of a pair; of the first one it is the byte before.
inline int32_t second_weight([[maybe_unused]] const PackedLayer& layer, const int8_t* weights) {
#ifdef __thumb__
  const bool is_sum = false;
#else
  const bool is_sum = layer.arrangement == Arrangement::Dsp;
#endif
  return weights[1] + (is_sum ? static_cast<int32_t>(static_cast<uint32_t>(weights[0]) >> 31) : 0);
}

/// Expands rows of words from four addresses to pairs of 16-bit numbers, one lane for each address:
/// bytes 0 and 2 of all lanes, then 1 and 3. Rows are `step` bytes apart. Returns the end of the
/// expanded rows.
__attribute__((noinline)) uint32_t* expand_rows(
    const int8_t* const (&from)[kLanes],
    int32_t words,
    int32_t rows,
    int32_t step,
    uint32_t* to) {
  step -= 4 * words;
  int32_t offset = 0;
  for (; rows > 0; --rows) {
    for (int32_t i = words; i > 0; --i) {
      for (const int8_t* lane : from) {
        const int8_t* const x = lane + offset;
        to[0] = two_halves(x[0], x[2]);
        to[kLanes] = two_halves(x[1], x[3]);
        ++to;
      }
      to += kLanes;
      offset += 4;
    }
    offset += step;
  }
  return to;
}

/**
 * Adds the products of four lanes with the weights of a pair of channels to `sums`: the first
 * channel's four sums, then the second's. Returns where the weights end.
 *
 * @param[in] count Products per sum, a multiple of four, and at least that.
 */
/*
 * One multiplication computes two products and adds them: for x = x0 + x1 * 2^16 and w = w1 + w0 *
 * 2^16, bits 31 to 16 are x0 * w0 + x1 * w1, except for the carry of x0 * w1, which rounding
 * removes, because it is at most 2^14. Only two times -128 * -128 exceeds 16 bits, which is
 * possible in layers that are wide.
 */

/// Returns whether a layer's weights are such that dot_lanes() does not take them.
inline bool is_any(const PackedLayer& layer) {
#ifdef __thumb__
  return layer.is_wide != 0;
#else
  return layer.is_wide != 0 || layer.arrangement == Arrangement::Dsp;
#endif
}

/// Adds the products of four lanes with the weights of the first channel of a pair, or the second.
template <bool kSecond>
void dot_channel(const uint32_t* lanes, const int8_t* weights, int32_t count, int32_t* sums) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  const uint32_t* const end = lanes + count / 2 * kLanes;
#if !defined(__thumb__)
  const auto high = [](uint32_t product) { return static_cast<int32_t>(product + 0x8000) >> 16; };
  for (; lanes != end; lanes += kLanes) {
    const uint32_t w = two_halves(weights[2 + kSecond], weights[kSecond]);
    weights += 4;
    s0 = wrapping_add(s0, high(lanes[0] * w));
    s1 = wrapping_add(s1, high(lanes[1] * w));
    s2 = wrapping_add(s2, high(lanes[2] * w));
    s3 = wrapping_add(s3, high(lanes[3] * w));
  }
#elif defined(__ARM_FEATURE_UNALIGNED)
  // 1.75 instructions per product, where the compiler takes 3.
  const int8_t* from = weights + kSecond;
  uint32_t a, b, v, w;
#define TWO_LANES(p, q)             \
  "ldrd %[a], %[b], [%[x]], #8\n"   \
  "mla %[a], %[a], %[w], %[half]\n" \
  "mla %[b], %[b], %[w], %[half]\n" \
  "add " p ", " p                   \
  ", %[a], asr #16\n"               \
  "add " q ", " q ", %[b], asr #16\n"
#define EIGHT_PRODUCTS              \
  "ldrsb %[w], [%[weights]], #4\n"  \
  "ldrsb %[v], [%[weights], #-2]\n" \
  "add %[w], %[v], %[w], lsl #16\n" TWO_LANES("%[s0]", "%[s1]") TWO_LANES("%[s2]", "%[s3]")
  __asm__ volatile("1:\n" EIGHT_PRODUCTS EIGHT_PRODUCTS
                   "cmp %[x], %[end]\n"
                   "bne 1b\n"
                   : FOUR_SUMS,
                     [x] "+r"(lanes),
                     [weights] "+r"(from),
                     [a] "=&r"(a),
                     [b] "=&r"(b),
                     [v] "=&r"(v),
                     [w] "=&r"(w)
                   : [end] "r"(end), [half] "r"(0x8000)
                   : "memory", "cc");
#undef EIGHT_PRODUCTS
#undef TWO_LANES
#else
  // Eight registers can be multiplied, and the carry is the bit that a shift moves out, which
  // rounds. 3.0 instructions per product.
  const int8_t* from = weights;
  uint32_t v, w;
#define ONE_LANE(sum)       \
  "ldmia %[x]!, {%[v]}\n"   \
  "muls %[v], %[w], %[v]\n" \
  "asrs %[v], %[v], #16\n"  \
  "adcs %[" sum "], %[v]\n"
#define LANES_ASM(halves) \
  __asm__ volatile(                                     \
      ".syntax unified\n"                               \
      "1:\n"                                            \
      "ldmia %[weights]!, {%[w]}\n" halves              \
      "lsls %[v], %[v], #16\n"                          \
      "adds %[w], %[w], %[v]\n" ONE_LANE("s0")          \
          ONE_LANE("s1") ONE_LANE("s2") ONE_LANE("s3")  \
      "cmp %[x], %[end]\n"                              \
      "bne 1b\n"                                        \
      : [s0] "+l"(s0),                                  \
        [s1] "+l"(s1),                                  \
        [s2] "+l"(s2),                                  \
        [s3] "+l"(s3),                                  \
        [x] "+l"(lanes),                                \
        [weights] "+l"(from),                           \
        [v] "=&l"(v),                                   \
        [w] "=&l"(w)                                    \
      : [end] "h"(end)                                  \
      : "memory", "cc")
  if constexpr (kSecond) {
    LANES_ASM(
        "lsrs %[v], %[w], #8\n"
        "sxtb %[v], %[v]\n"
        "asrs %[w], %[w], #24\n");
  } else {
    LANES_ASM(
        "sxtb %[v], %[w]\n"
        "lsrs %[w], %[w], #16\n"
        "sxtb %[w], %[w]\n");
  }
#undef LANES_ASM
#undef ONE_LANE
#endif
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

inline const int8_t*
dot_lanes(const uint32_t* lanes, const int8_t* weights, int32_t count, int32_t (&sums)[8]) {
  dot_channel<false>(lanes, weights, count, sums);
  dot_channel<true>(lanes, weights, count, sums + kLanes);
  return weights + 2 * count;
}

/// Does the same as dot_lanes() for any weights.
inline const int8_t* dot_lanes_wide(
    const PackedLayer& layer,
    const uint32_t* lanes,
    const int8_t* weights,
    int32_t count,
    int32_t (&sums)[8]) {
  for (int32_t i = 0; i < count / 2; ++i) {
    const int32_t w0 = second_weight(layer, weights);
    const int32_t w1 = second_weight(layer, weights + 2);
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const auto low = static_cast<int16_t>(lanes[lane] & 0xffff);
      const auto high = static_cast<int32_t>(lanes[lane] - static_cast<uint32_t>(low)) >> 16;
      sums[lane] = wrapping_add(sums[lane], low * weights[0] + high * weights[2]);
      sums[kLanes + lane] = wrapping_add(sums[kLanes + lane], low * w0 + high * w1);
    }
    weights += 4;
    lanes += kLanes;
  }
  return weights;
}

/// Stores four outputs of one factor, of a layer that is not wide.
ET_INLINE void
store_lanes(int32_t s0, int32_t s1, int32_t s2, int32_t s3, Scale scale, int8_t* out) {
  out[0] = scale.apply(s0);
  out[1] = scale.apply(s1);
  out[2] = scale.apply(s2);
  out[3] = scale.apply(s3);
}

/// Stores the outputs of a channel at four pixels, `step` apart, of a layer that is not wide.
ET_INLINE void store_pixels(const int32_t* sums, Scale scale, int8_t* out, int32_t step) {
  out[0] = scale.apply(sums[0]);
  out[step] = scale.apply(sums[1]);
  out[2 * step] = scale.apply(sums[2]);
  out[3 * step] = scale.apply(sums[3]);
}

/// Adds the products of four inputs with the weights of a pair of channels to the first channel's
/// sum and to the value from which second_sum() computes the second's.
ET_INLINE void dot_pair(
    [[maybe_unused]] const PackedLayer& layer,
    const void* inputs,
    const uint32_t* weights,
    int32_t& s0,
    int32_t& s1) {
  const auto* const x = static_cast<const int8_t*>(inputs);
  const auto* const w = reinterpret_cast<const int8_t*>(weights);
  const int32_t w0 = second_weight(layer, w);
  const int32_t w1 = second_weight(layer, w + 2);
  const int32_t w2 = second_weight(layer, w + 4);
  const int32_t w3 = second_weight(layer, w + 6);
  s0 = wrapping_add(s0, x[0] * w[0] + x[2] * w[2] + x[1] * w[4] + x[3] * w[6]);
  s1 = wrapping_add(s1, x[0] * w0 + x[2] * w1 + x[1] * w2 + x[3] * w3);
}

/// Returns what dot_pair() begins to add to for a pair's second channel, by the first one's sum.
ET_INLINE int32_t begin_second([[maybe_unused]] int32_t first) {
  return 0;
}

/// Returns the second channel's sum with the products added since begin_second().
ET_INLINE int32_t second_sum(int32_t sum, int32_t both, [[maybe_unused]] int32_t first) {
  return wrapping_add(sum, both);
}

/// Does the same as dot_pair() for two pairs of channels and `count` inputs, a multiple of eight;
/// the weights move on.
ET_INLINE void dot_vector(
    [[maybe_unused]] const PackedLayer& layer,
    const int8_t* x,
    int32_t count,
    const uint32_t*& first,
    const uint32_t*& second,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  const int8_t* const end = x + count;
  for (; x != end; x += 4) {
    dot_pair(layer, x, first, s0, s1);
    dot_pair(layer, x, second, s2, s3);
    first += 2;
    second += 2;
  }
}

/// Takes the next four biases.
ET_INLINE void take_four(const int32_t*& bias, int32_t& s0, int32_t& s1, int32_t& s2, int32_t& s3) {
  s0 = bias[0];
  s1 = bias[1];
  s2 = bias[2];
  s3 = bias[3];
  bias += 4;
}

/// Does the same as rows_to_outputs() of packed_mve.h without its instructions.
void rows_to_outputs(
    const PackedParts& parts,
    const int8_t* in,
    int8_t* out,
    uint32_t /*needs*/ = 0) {
  const int8_t* weights = parts.weights;
  for (int32_t c = 0; c < parts.layer->channels; ++c) {
    int32_t sum = parts.bias[c];
    for (int32_t i = 0; i < parts.inner; ++i) {
      sum = wrapping_add(sum, in[i] * *weights++);
    }
    out[c] = scale_wide(parts, sum, c);
  }
}

} // namespace

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
