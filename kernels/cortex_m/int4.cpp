#include "kernels/cortex_m/int4.h"

#include "kernels/cortex_m/packed_scale.h"
#include "kernels/util/aligned.h"

#ifdef __ARM_FEATURE_MVE
#include "kernels/cortex_m/packed_mve.h"
#endif

namespace torch::executor::native::cortex_m {

namespace {

constexpr int32_t kBlock = kInt4Block;

#if !defined(__ARM_FEATURE_MVE)

/// Returns the factor of a channel, from a word with those of four.
constexpr int32_t factor_of(uint32_t factors, int32_t channel) {
  return static_cast<int32_t>(factors >> (8 * channel) & 0xff);
}

/// Replaces factors if there are none.
constexpr uint32_t kNoFactors = 0x01010101;

#ifdef __ARM_FEATURE_DSP

// Weights are multiplied where they are in the upper four bits of a halfword.
constexpr int32_t kSumShift = 12;

/**
 * Adds the products of `count` inputs, a multiple of eight and at least that, with the weights of
 * four channels, times 2^12. Inputs and weights move on.
 */
ET_INLINE void multiply_eights(
    const int8_t*& x,
    int32_t count,
    const uint32_t*& weights,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  const int8_t* const end = x + count;
  uint32_t a, b, c, d, v, w;
  // 1.4 instructions per product.
#define EIGHT_PRODUCTS(sum)            \
  "ldr %[w], [%[weights]], #4\n"       \
  "and %[v], %[mask], %[w]\n"          \
  "smlad " sum ", %[a], %[v], " sum    \
  "\n"                                 \
  "and %[v], %[mask], %[w], lsl #4\n"  \
  "smlad " sum ", %[b], %[v], " sum    \
  "\n"                                 \
  "and %[v], %[mask], %[w], lsl #8\n"  \
  "smlad " sum ", %[c], %[v], " sum    \
  "\n"                                 \
  "and %[v], %[mask], %[w], lsl #12\n" \
  "smlad " sum ", %[d], %[v], " sum "\n"
  __asm__ volatile("1:\n"
                   "ldr %[b], [%[x]], #4\n"
                   "ldr %[d], [%[x]], #4\n"
                   "sxtb16 %[a], %[b]\n"
                   "sxtb16 %[b], %[b], ror #8\n"
                   "sxtb16 %[c], %[d]\n"
                   "sxtb16 %[d], %[d], ror #8\n" EIGHT_PRODUCTS("%[s0]") EIGHT_PRODUCTS("%[s1]")
                       EIGHT_PRODUCTS("%[s2]") EIGHT_PRODUCTS("%[s3]")
                   "ldr %[v], %[end]\n"
                   "cmp %[x], %[v]\n"
                   "bne 1b\n"
                   : [s0] "+r"(s0),
                     [s1] "+r"(s1),
                     [s2] "+r"(s2),
                     [s3] "+r"(s3),
                     [x] "+r"(x),
                     [weights] "+r"(weights),
                     [a] "=&r"(a),
                     [b] "=&r"(b),
                     [c] "=&r"(c),
                     [d] "=&r"(d),
                     [v] "=&r"(v),
                     [w] "=&r"(w)
                   : [mask] "r"(0xf000f000), [end] "m"(end)
                   : "memory", "cc");
#undef EIGHT_PRODUCTS
}

#else

constexpr int32_t kSumShift = 0;

/// The products of eight inputs with a word of weights.
ET_INLINE int32_t multiply_eight(const int8_t* x, uint32_t w) {
  const auto weight = [w](int32_t place) {
    return static_cast<int32_t>(w << (28 - 4 * place)) >> 28;
  };
  return x[0] * weight(3) + x[1] * weight(2) + x[2] * weight(7) + x[3] * weight(6) +
      x[4] * weight(1) + x[5] * weight(0) + x[6] * weight(5) + x[7] * weight(4);
}

/// Adds the products of `count` inputs, a multiple of eight and at least that, with the weights of
/// four channels. Inputs and weights move on.
ET_INLINE void multiply_eights(
    const int8_t*& x,
    int32_t count,
    const uint32_t*& weights,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  for (; count > 0; count -= 8) {
    s0 += multiply_eight(x, weights[0]);
    s1 += multiply_eight(x, weights[1]);
    s2 += multiply_eight(x, weights[2]);
    s3 += multiply_eight(x, weights[3]);
    x += 8;
    weights += 4;
  }
}

#endif

/// A channel's sum and that of a block times its factor.
ET_INLINE int32_t add_block(int32_t total, int32_t sum, uint32_t factors, int32_t channel) {
  return wrapping_add(total, wrapping_mul(sum >> kSumShift, factor_of(factors, channel)));
}

/// Computes all outputs of one vector.
void vector_to_outputs(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t channels = layer.channels;
  const int32_t addend = addend_of(layer);
  const int32_t inner = parts.padded_inner;
  const bool has_factors = layer.group_size != 0;
  // The last inputs, with zeros until there are eight.
  int8_t rest[8] = {};
  const int32_t whole = parts.inner & ~7;
  for (int32_t i = whole; i < parts.inner; ++i) {
    rest[i & 7] = in[i];
  }
  const int32_t* bias = parts.bias;
  const int32_t* multipliers = parts.multipliers;
  const int8_t* shifts = parts.shifts;
  const auto* weights = aligned_cast<const uint32_t>(parts.weights);
  for (int32_t c = 0; c < channels; c += 4) {
    int32_t t0 = bias[0];
    int32_t t1 = bias[1];
    int32_t t2 = bias[2];
    int32_t t3 = bias[3];
    const int8_t* x = in;
    for (int32_t at = 0; at < inner; at += kBlock) {
      const uint32_t factors = has_factors ? *weights++ : kNoFactors;
      int32_t s0 = 0;
      int32_t s1 = 0;
      int32_t s2 = 0;
      int32_t s3 = 0;
      const int32_t count = whole - at < kBlock ? whole - at : kBlock;
      if (count > 0) {
        multiply_eights(x, count, weights, s0, s1, s2, s3);
      }
      if (count < kBlock && whole < inner) {
        const int8_t* last = rest;
        multiply_eights(last, 8, weights, s0, s1, s2, s3);
      }
      t0 = add_block(t0, s0, factors, 0);
      t1 = add_block(t1, s1, factors, 1);
      t2 = add_block(t2, s2, factors, 2);
      t3 = add_block(t3, s3, factors, 3);
    }
    if (c + 4 <= channels) {
      store_group(multipliers, shifts, addend, t0, t1, t2, t3, out);
    } else {
      const int32_t totals[3] = {t0, t1, t2};
      for (int32_t i = 0; i < channels - c; ++i) {
        out[i] = Scale{multipliers[i], shifts[i], addend}.apply(totals[i]);
      }
    }
    bias += 4;
    multipliers += 4;
    shifts += 4;
    out += 4;
  }
}

#ifndef __ARM_FEATURE_DSP

/// Does the same as rows_to_outputs() below, without its instructions.
void rows_to_outputs(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t inner = parts.inner;
  const bool has_factors = layer.group_size != 0;
  const int8_t* weights = parts.weights;
  for (int32_t c = 0; c < layer.channels; c += 4) {
    int32_t totals[4] = {parts.bias[c], parts.bias[c + 1], parts.bias[c + 2], parts.bias[c + 3]};
    for (int32_t at = 0; at < inner; at += kBlock) {
      uint32_t factors = kNoFactors;
      if (has_factors) {
        factors = load_word(weights);
        weights += 4;
      }
      const int32_t count = inner - at < kBlock ? inner - at : kBlock;
      const int32_t bytes = (count + 1) / 2;
      const int8_t* const x = in + at;
      for (int32_t k = 0; k < 4; ++k) {
        int32_t sum = 0;
        for (int32_t i = 0; i < bytes; ++i) {
          const auto pair = static_cast<uint32_t>(static_cast<uint8_t>(*weights++));
          sum += x[i] * (static_cast<int32_t>(pair << 28) >> 28);
          if (bytes + i < count) {
            sum += x[bytes + i] * (static_cast<int32_t>(pair << 24) >> 28);
          }
        }
        totals[k] = wrapping_add(totals[k], wrapping_mul(sum, factor_of(factors, k)));
      }
    }
    for (int32_t k = 0; k < 4 && c + k < layer.channels; ++k) {
      out[c + k] = scale_wide(parts, totals[k], c + k);
    }
  }
}

#endif

#else

/// Sixteen times the products of two vectors of inputs with the weights in low and high halves.
ET_INLINE int32_t multiply_halves(int8x16_t low, int8x16_t high, int8x16_t weights) {
  const int8x16_t upper = vandq_s8(weights, vdupq_n_s8(static_cast<int8_t>(0xf0)));
  return vmladavaq_s8(vmladavq_s8(low, vshlq_n_s8(weights, 4)), high, upper);
}

/// Four channels' totals and the sums of a block, which are sixteen times as large, times their
/// factors.
ET_INLINE int32x4_t add_block(int32x4_t totals, int32x4_t sums, const int8_t* factors) {
  sums = vshrq_n_s32(sums, 4);
  if (factors != nullptr) {
    const uint32x4_t by = vldrbq_u32(reinterpret_cast<const uint8_t*>(factors));
    sums = vmulq_s32(sums, vreinterpretq_s32_u32(by));
  }
  return vaddq_s32(totals, sums);
}

/// Computes all outputs of one vector.
template <bool kFactors>
void rows_to_outputs(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const int32_t rest = inner % kBlock;
  const int32_t bytes = (rest + 1) / 2;
  const mve_pred16_t in_low = vctp8q(static_cast<uint32_t>(bytes));
  const mve_pred16_t in_high = vctp8q(static_cast<uint32_t>(rest - bytes));
  const int8_t* weights = parts.weights;
  VectorScale scale(parts, 0, 1);
  for (int32_t c = 0; c < channels; c += 4) {
    int32x4_t totals = vldrwq_s32(scale.bias);
    const int8_t* x = in;
    for (int32_t blocks = inner / kBlock; blocks > 0; --blocks) {
      const int8_t* const factors = kFactors ? weights : nullptr;
      weights += kFactors ? 4 : 0;
      const int8x16_t low = vldrbq_s8(x);
      const int8x16_t high = vldrbq_s8(x + 16);
      const int32_t s0 = multiply_halves(low, high, vldrbq_s8(weights));
      const int32_t s1 = multiply_halves(low, high, vldrbq_s8(weights + 16));
      const int32_t s2 = multiply_halves(low, high, vldrbq_s8(weights + 32));
      const int32_t s3 = multiply_halves(low, high, vldrbq_s8(weights + 48));
      totals = add_block(totals, four(s0, s1, s2, s3), factors);
      x += kBlock;
      weights += 64;
    }
    if (rest != 0) {
      const int8_t* const factors = kFactors ? weights : nullptr;
      weights += kFactors ? 4 : 0;
      const int8x16_t low = vldrbq_z_s8(x, in_low);
      const int8x16_t high = vldrbq_z_s8(x + bytes, in_high);
      int32_t sums[4];
      for (int32_t& sum : sums) {
        sum = multiply_halves(low, high, vldrbq_z_s8(weights, in_low));
        weights += bytes;
      }
      totals = add_block(totals, four(sums[0], sums[1], sums[2], sums[3]), factors);
    }
    if (c + 4 <= channels) {
      scale.store(totals, out);
    } else {
      scale.store_some(totals, out, vctp32q(static_cast<uint32_t>(channels - c)));
    }
    out += 4;
  }
}

#endif

} // namespace

ET_NOINLINE void
packed_int4(const PackedParts& parts, const int8_t* in, int32_t rows, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  int8_t* const first_out = out;
  for (; rows > 0; --rows) {
#if defined(__ARM_FEATURE_MVE)
    if (layer.group_size != 0) {
      rows_to_outputs<true>(parts, in, out);
    } else {
      rows_to_outputs<false>(parts, in, out);
    }
#elif defined(__ARM_FEATURE_DSP)
    vector_to_outputs(parts, in, out);
#else
    if (layer.arrangement == Arrangement::Mve) {
      rows_to_outputs(parts, in, out);
    } else {
      vector_to_outputs(parts, in, out);
    }
#endif
    in += parts.inner;
    out += layer.channels;
  }
  clamp_outputs(layer, first_out, static_cast<int32_t>(out - first_out));
}

void packed_int4(const int8_t* packed, const int8_t* in, int32_t rows, int8_t* out) {
  const auto kind = aligned_cast<const PackedLayer>(packed)->kind;
  const PackedCounts counts = packed_counts(*aligned_cast<const PackedLayer>(packed), kind, 1);
  packed_int4(packed_parts(packed, kind, counts), in, rows, out);
}

} // namespace torch::executor::native::cortex_m
