#pragma once

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// The sums of packed layers with the DSP extension: the functions of packed_scalar.h, and
/// pairs_to_outputs().

inline int32_t second_weight(const PackedLayer& /*layer*/, const int8_t* weights) {
  return weights[1] + static_cast<int32_t>(static_cast<uint32_t>(weights[0]) >> 31);
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
  const int8_t* p0 = from[0];
  const int8_t* p1 = from[1];
  const int8_t* p2 = from[2];
  const int8_t* p3 = from[3];
  for (; rows > 0; --rows) {
    int32_t count = words;
    // 1 instruction per byte. With a register to spare: compilers keep one for a frame pointer.
    __asm__ volatile(
        ".p2align 2\n"
        "1:\n"
        "ldr r6, [%[p0]], #4\n"
        "ldr r8, [%[p1]], #4\n"
        "ldr r9, [%[p2]], #4\n"
        "ldr r10, [%[p3]], #4\n"
        "sxtb16 r4, r6\n"
        "sxtb16 r5, r8\n"
        "sxtb16 r11, r9\n"
        "stmia %[to]!, {r4, r5, r11}\n"
        "sxtb16 r4, r10\n"
        "sxtb16 r6, r6, ror #8\n"
        "sxtb16 r8, r8, ror #8\n"
        "sxtb16 r9, r9, ror #8\n"
        "sxtb16 r10, r10, ror #8\n"
        "subs %[count], #1\n"
        "stmia %[to]!, {r4, r6, r8, r9, r10}\n"
        "bgt 1b\n"
        : [p0] "+r"(p0),
          [p1] "+r"(p1),
          [p2] "+r"(p2),
          [p3] "+r"(p3),
          [to] "+r"(to),
          [count] "+r"(count)
        :
        : "memory", "cc", "r4", "r5", "r6", "r8", "r9", "r10", "r11");
    p0 += step;
    p1 += step;
    p2 += step;
    p3 += step;
  }
  return to;
}

/*
 * Half of a word of weights, as a 16-bit number, is 256 times the second channel's weight plus the
 * first channel's. So a sum of products with it is 256 times the second channel's sum plus the
 * first channel's. This takes one instruction less than separating both, as long as the second
 * channel's sum has 24 bits.
 */

/// Returns the second channel's sum, from a sum of both and the first channel's.
ET_INLINE int32_t second_of(int32_t both, int32_t first) {
  return wrapping_add(both, static_cast<int32_t>(0u - static_cast<uint32_t>(first))) >> 8;
}

// Fourteen registers hold the sums, the operands and their addresses; the compiler would keep some
// on the stack. 0.8 instructions per product. On Cortex-M4 each load but the first of adjacent ones
// takes one cycle; LDRD takes three beside others, too.
#define MULTIPLY_LANES(s4, s0, s5, s1, from4, from0, from5, from1) \
  "smlad %[" s4 "], %[a], %[w], %[" from4                          \
  "]\n"                                                            \
  "smlad %[" s0 "], %[a], %[v], %[" from0                          \
  "]\n"                                                            \
  "smlad %[" s5 "], %[b], %[w], %[" from5                          \
  "]\n"                                                            \
  "smlad %[" s1 "], %[b], %[v], %[" from1 "]\n"
// `between` is executed after the first loads, with the word behind `first` in v.
#define FIRST_LANES MULTIPLY_LANES("s4", "s0", "s5", "s1", "s4", "s0", "s5", "s1")
#define LAST_LANES MULTIPLY_LANES("s6", "s2", "s7", "s3", "s6", "s2", "s7", "s3")
#define TWO_PRODUCTS_OF(first, between, first_lanes, last_lanes)         \
  first                                                                  \
      "ldr %[w], [%[weights]], #4\n"                                     \
      "ldr %[b], [%[x], #4]\n"                                           \
      "ldr %[a], [%[x]], #8\n" between "sxtb16 %[v], %[w]\n" first_lanes \
      "ldrd %[a], %[b], [%[x]], #8\n" last_lanes
#define TWO_PRODUCTS_AND(first, between) TWO_PRODUCTS_OF(first, between, FIRST_LANES, LAST_LANES)
#define TWO_PRODUCTS TWO_PRODUCTS_AND("", "")
// The first ones of sums that all begin with s3.
#define BEGIN_TWO_PRODUCTS                                            \
  TWO_PRODUCTS_OF(                                                    \
      "",                                                             \
      "",                                                             \
      MULTIPLY_LANES("s4", "s0", "s5", "s1", "s3", "s3", "s3", "s3"), \
      MULTIPLY_LANES("s6", "s2", "s7", "s3", "s3", "s3", "s3", "s3"))
// The last ones of an iteration compare the address of the lanes with `end`, which is two words
// before theirs, for the branch that follows.
#define LAST_TWO_PRODUCTS(end) TWO_PRODUCTS_AND("ldr %[v], " end "\n", "cmp %[v], %[x]\n")

ET_INLINE const int8_t*
dot_short_lanes(const uint32_t*& lanes, const int8_t* weights, int32_t count, int32_t (&sums)[8]) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  int32_t s4 = s0, s5 = s1, s6 = s2, s7 = s3;
  const uint32_t* const end = lanes + count / 2 * kLanes - 2;
  uint32_t a, b, v, w;
  MEMORY_WORDS(a, memory_word(end), 0);
  __asm__ volatile(PUSH_MEMORY("1, 0", "%[a]", "%[b]") "1:\n" TWO_PRODUCTS LAST_TWO_PRODUCTS(
                       IN_MEMORY(end, 0)) "bne 1b\n" POP_MEMORY(2)
                   : FOUR_SUMS,
                     [s4] "+r"(s4),
                     [s5] "+r"(s5),
                     [s6] "+r"(s6),
                     [s7] "+r"(s7),
                     [x] "+r"(lanes),
                     [weights] "+r"(weights),
                     [a] MEMORY_ADDRESS(a),
                     [b] "=&r"(b),
                     [v] "=&r"(v),
                     [w] "=&r"(w)
                   : WITH_GCC([end] "m"(end))
                   : "memory", "cc");
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
  sums[4] = wrapping_add(sums[4], second_of(s4, s0));
  sums[5] = wrapping_add(sums[5], second_of(s5, s1));
  sums[6] = wrapping_add(sums[6], second_of(s6, s2));
  sums[7] = wrapping_add(sums[7], second_of(s7, s3));
  return weights;
}

ET_INLINE const int8_t*
dot_lanes(const uint32_t* lanes, const int8_t* weights, int32_t count, int32_t (&sums)[8]) {
  while (count > 0) {
    const int32_t taken = count < kPackedShortSum ? count : kPackedShortSum;
    weights = dot_short_lanes(lanes, weights, taken, sums);
    count -= taken;
  }
  return weights;
}

// Scale::apply() of doubled sums, with the names of registers.
#define SCALED(sum, multiplier, shift, addend) \
  "smmulr " sum ", " sum ", " multiplier       \
  "\n"                                         \
  "add " sum ", " sum ", " sum                 \
  ", asr #31\n"                                \
  "asr " sum ", " sum ", " shift               \
  "\n"                                         \
  "add " sum ", " sum ", " addend              \
  "\n"                                         \
  "ssat " sum ", #8, " sum ", asr #1\n"

/// Stores four outputs of one factor, of a layer that is not wide.
ET_INLINE void
store_lanes(int32_t s0, int32_t s1, int32_t s2, int32_t s3, Scale scale, int8_t* out) {
#define LANE(sum, address)             \
  "lsl " sum ", " sum ", #1\n" SCALED( \
      sum, "%[multiplier]", "%[shift]", "%[addend]") "strb " sum ", [%[out]" address "]\n"
  __asm__ volatile(LANE("%[s0]", "") LANE("%[s1]", ", #1") LANE("%[s2]", ", #2")
                       LANE("%[s3]", ", #3")
                   : FOUR_SUMS
                   : [multiplier] "r"(scale.multiplier),
                     [shift] "r"(scale.shift),
                     [addend] "r"(scale.addend),
                     [out] "r"(out)
                   : "memory", "cc");
#undef LANE
}

#define LANE(sum) SCALED(sum, "%[w]", "%[x]", "%[b]")
#define FIRST(sum) "lsl " sum ", " sum ", #1\n" LANE(sum)
#define TWO_BYTES(low, high) "bfi " low ", " high ", #8, #8\n"
#define NEXT_FACTORS \
  "ldr %[w], [%[v]], #4\n" \
  "ldrsb %[x], [%[a]], #1\n" \
  "str %[v], " IN_MEMORY(multipliers, 1) "\n" \
  "str %[a], " IN_MEMORY(shifts, 2) "\n"

// The asm statement of pairs_to_outputs(), which moves on to the factors of a pair's second channel
// and of the next pair by `next_factors`.
#define PAIRS(next_factors) \
  __asm__ volatile( \
      PUSH_MEMORY("9, 8, 7, 6, 5, 4, 3, 2, 1, 0", "%[x]", "%[a]") \
      "b 3f\n" \
      "4:\n" \
      "bcs 6f\n" \
      "b 5f\n" \
      ".p2align 2\n" \
      "3:\n" \
      "ldr %[a], " IN_MEMORY(bias, 0) "\n" \
      "ldr %[x], " IN_MEMORY(expanded, 5) "\n" \
      "ldr %[s3], [%[a], #4]\n" \
      BEGIN_TWO_PRODUCTS \
      TWO_PRODUCTS_AND("ldr %[v], " IN_MEMORY(rest, 6) "\n", "lsls %[v], #29\n") \
      "bmi 4b\n" \
      "bcs 2f\n" \
      "beq 7f\n" \
      ".p2align 2\n" \
      "1:\n" TWO_PRODUCTS TWO_PRODUCTS \
      "6:\n" TWO_PRODUCTS TWO_PRODUCTS \
      "2:\n" TWO_PRODUCTS TWO_PRODUCTS \
      "5:\n" TWO_PRODUCTS LAST_TWO_PRODUCTS(IN_MEMORY(end, 7)) \
      "bne 1b\n" \
      "7:\n" \
      /* The second channel's sums, doubled. */ \
      "ldr %[x], " IN_MEMORY(bias, 0) "\n" \
      "ldr %[v], " IN_MEMORY(multipliers, 1) "\n" \
      "ldr %[a], " IN_MEMORY(shifts, 2) "\n" \
      "ldr %[w], [%[x], #8]!\n" \
      "sub %[s4], %[s0]\n" \
      "sub %[s5], %[s1]\n" \
      "sub %[s6], %[s2]\n" \
      "sub %[s7], %[s3]\n" \
      "lsl %[w], #1\n" \
      "str %[x], " IN_MEMORY(bias, 0) "\n" \
      "add %[s4], %[w], %[s4], asr #7\n" \
      "add %[s5], %[w], %[s5], asr #7\n" \
      "add %[s6], %[w], %[s6], asr #7\n" \
      "add %[s7], %[w], %[s7], asr #7\n" \
      "ldr %[w], [%[v]], #4\n" \
      "ldrsb %[x], [%[a]], #1\n" \
      "ldr %[b], " IN_MEMORY(addend, 9) "\n" \
      FIRST("%[s0]") FIRST("%[s1]") FIRST("%[s2]") FIRST("%[s3]") next_factors \
      LANE("%[s4]") LANE("%[s5]") LANE("%[s6]") LANE("%[s7]") \
      /* Both channels' outputs are neighbours. */ \
      "ldr %[w], " IN_MEMORY(out, 3) "\n" \
      "ldr %[x], " IN_MEMORY(step, 8) "\n" \
      "ldr %[b], " IN_MEMORY(last, 4) "\n" \
      TWO_BYTES("%[s0]", "%[s4]") \
      "strh %[s0], [%[w]], #2\n" \
      "str %[w], " IN_MEMORY(out, 3) "\n" \
      "add %[w], %[x]\n" TWO_BYTES("%[s1]", "%[s5]") \
      "strh %[s1], [%[w], #-2]\n" \
      "add %[w], %[x]\n" TWO_BYTES("%[s2]", "%[s6]") \
      "strh %[s2], [%[w], #-2]\n" \
      "add %[w], %[x]\n" TWO_BYTES("%[s3]", "%[s7]") \
      "strh %[s3], [%[w], #-2]\n" \
      "cmp %[weights], %[b]\n" \
      "bne 3b\n" POP_MEMORY(10) \
      : [s0] "=&r"(s0), \
        [s1] "=&r"(s1), \
        [s2] "=&r"(s2), \
        [s3] "=&r"(s3), \
        [s4] "=&r"(s4), \
        [s5] "=&r"(s5), \
        [s6] "=&r"(s6), \
        [s7] "=&r"(s7), \
        [x] MEMORY_ADDRESS(x), \
        [a] "=&r"(a), \
        [b] "=&r"(b), \
        [v] "=&r"(v), \
        [w] "=&r"(w), \
        [weights] "+r"(weights) \
        WITH_GCC(, [bias] "+m"(bias), \
        [multipliers] "+m"(multipliers), \
        [shifts] "+m"(shifts), \
        [out] "+m"(out)) \
      : WITH_GCC([expanded] "m"(expanded), \
        [rest] "m"(rest), \
        [end] "m"(end), \
        [last] "m"(last), \
        [step] "m"(step), \
        [addend] "m"(addend)) \
      : "memory", "cc")

/**
 * Computes the outputs of a layer that is not wide and has_short_sums(), at four pixels, of pairs
 * of channels. Returns where their weights end.
 *
 * @tparam kFactorStep That of the layer.
 * @param[in] pairs At least one.
 */
template <int32_t kFactorStep>
ET_INLINE const int8_t*
pairs_to_outputs(const PackedParts& parts, const uint32_t* expanded, int32_t pairs, int8_t* out) {
  const int32_t inner = parts.padded_inner;
  // The loop's entry after four products: bits 3 and 2 of the remaining count, or 0.
  const int32_t rest = ((inner - 4) & 12) | static_cast<int32_t>(inner > 4);
  const uint32_t* const end = expanded + inner / 2 * kLanes - 2;
  const int32_t step = parts.layer->channels;
  const int32_t addend = addend_of(*parts.layer);
  // The last bias of the pair before.
  const int32_t* bias = parts.bias - 1;
  const int32_t* multipliers = parts.multipliers;
  const int8_t* shifts = parts.shifts;
  const int8_t* weights = parts.weights;
  const int8_t* const last = weights + 2 * pairs * inner;
  int32_t s0, s1, s2, s3, s4, s5, s6, s7;
  uint32_t x, a, b, v, w;
  MEMORY_WORDS(
      x,
      memory_word(bias),
      memory_word(multipliers),
      memory_word(shifts),
      memory_word(out),
      memory_word(last),
      memory_word(expanded),
      memory_word(rest),
      memory_word(end),
      memory_word(step),
      memory_word(addend));
  // The compiler would move sums from one register to another, for each pair some thirty times.
  if constexpr (kFactorStep == 0) {
    PAIRS("");
  } else {
    PAIRS(NEXT_FACTORS);
  }
  return weights;
}

#undef PAIRS
#undef NEXT_FACTORS
#undef TWO_BYTES
#undef FIRST
#undef LANE
#undef SCALED
#undef LAST_TWO_PRODUCTS
#undef BEGIN_TWO_PRODUCTS
#undef TWO_PRODUCTS
#undef TWO_PRODUCTS_AND
#undef TWO_PRODUCTS_OF
#undef LAST_LANES
#undef FIRST_LANES
#undef MULTIPLY_LANES

/// Adds the products of four inputs with the weights of a pair of channels to the first channel's
/// sum and to the value from which second_sum() computes the second's.
ET_INLINE void dot_pair(
    [[maybe_unused]] const PackedLayer& layer,
    const void* inputs,
    const uint32_t* weights,
    int32_t& s0,
    int32_t& s1) {
  const uint32_t word = load_word(inputs);
  const int16x2_t even = even_bytes(word);
  const int16x2_t odd = odd_bytes(word);
  const uint32_t first = weights[0];
  const uint32_t second = weights[1];
  s0 = dot2(even, even_bytes(first), s0);
  s1 = dot2(even, static_cast<int16x2_t>(first), s1);
  s0 = dot2(odd, even_bytes(second), s0);
  s1 = dot2(odd, static_cast<int16x2_t>(second), s1);
}

/// Returns what dot_pair() begins to add to for a pair's second channel, by the first one's sum.
ET_INLINE int32_t begin_second([[maybe_unused]] int32_t first) {
  return first;
}

/// Returns the second channel's sum with the products added since begin_second().
ET_INLINE int32_t second_sum(int32_t sum, int32_t both, [[maybe_unused]] int32_t first) {
  return wrapping_add(sum, second_of(both, first));
}

/// Does the same as dot_pair() for two pairs of channels and `count` inputs, a multiple of eight;
/// the weights move on. With `kIsLong`, for kNeedsMany, sixteen inputs take a turn.
template <bool kIsLong>
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
  // 1.1 or 1.2 instructions per product. For adjacent loads see TWO_PRODUCTS.
  uint32_t even, odd, a, b;
#define PAIR(a, b, p, q)                    \
  "smlad %[" q "], %[even], %[" a "], %[" q \
  "]\n"                                     \
  "sxtb16 %[" a "], %[" a                   \
  "]\n"                                     \
  "smlad %[" q "], %[odd], %[" b "], %[" q  \
  "]\n"                                     \
  "sxtb16 %[" b "], %[" b                   \
  "]\n"                                     \
  "smlad %[" p "], %[even], %[" a "], %[" p \
  "]\n"                                     \
  "smlad %[" p "], %[odd], %[" b "], %[" p "]\n"
#define INPUTS "sxtb16 %[even], %[odd]\nsxtb16 %[odd], %[odd], ror #8\n"
#define FOUR_INPUTS                                \
  "ldr %[odd], [%[x]], #4\n"                       \
  "ldrd %[a], %[b], [%[first]], #8\n" INPUTS PAIR( \
      "a", "b", "s0", "s1") "ldrd %[a], %[b], [%[second]], #8\n" PAIR("a", "b", "s2", "s3")
#define FOUR_OF_MANY            \
  "ldr %[b], [%[first], #4]\n"  \
  "ldr %[odd], [%[x]], #4\n"    \
  "ldr %[d], [%[second], #4]\n" \
  "ldr %[a], [%[first]], #8\n"  \
  "ldr %[c], [%[second]], #8\n" INPUTS PAIR("a", "b", "s0", "s1") PAIR("c", "d", "s2", "s3")
#define OPERANDS                                                                          \
  FOUR_SUMS, [x] "+r"(x), [first] "+r"(first), [second] "+r"(second), [even] "=&r"(even), \
      [odd] "=&r"(odd), [a] "=&r"(a), [b] "=&r"(b)
  if constexpr (kIsLong) {
    if (x == end) {
      return;
    }
    uint32_t d;
    auto c = static_cast<uint32_t>(count);
    __asm__ volatile(
        "lsls %[c], #28\n"
        "bmi 2f\n"
        ".p2align 2\n"
        "1:\n" FOUR_OF_MANY FOUR_OF_MANY "2:\n" FOUR_OF_MANY FOUR_OF_MANY
        "cmp %[x], %[end]\n"
        "bne 1b\n"
        : OPERANDS, [c] "+r"(c), [d] "=&r"(d)
        : [end] "r"(end)
        : "memory", "cc");
  } else if (x != end) {
    __asm__ volatile("1:\n" FOUR_INPUTS FOUR_INPUTS
                     "cmp %[x], %[end]\n"
                     "bne 1b\n"
                     : OPERANDS
                     : [end] "r"(end)
                     : "memory", "cc");
  }
#undef OPERANDS
#undef FOUR_OF_MANY
#undef FOUR_INPUTS
#undef INPUTS
#undef PAIR
}

/// Takes the next four biases.
ET_INLINE void take_four(const int32_t*& bias, int32_t& s0, int32_t& s1, int32_t& s2, int32_t& s3) {
  // Compiled, it loads a pointer that is on the stack four times.
  __asm__ volatile(
      "ldrd %[s0], %[s1], [%[bias]], #8\n"
      "ldrd %[s2], %[s3], [%[bias]], #8\n"
      : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [bias] "+r"(bias)
      :
      : "memory");
}

} // namespace

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
