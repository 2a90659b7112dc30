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
        "ldr r6, [%[p0]], #4; ldr r8, [%[p1]], #4; ldr r9, [%[p2]], #4; ldr r10, [%[p3]], #4\n"
        "sxtb16 r4, r6; sxtb16 r5, r8; sxtb16 r11, r9; stmia %[to]!, {r4, r5, r11}\n"
        "sxtb16 r4, r10; sxtb16 r6, r6, ror #8; sxtb16 r8, r8, ror #8; sxtb16 r9, r9, ror #8\n"
        "sxtb16 r10, r10, ror #8; subs %[count], #1; stmia %[to]!, {r4, r6, r8, r9, r10}; bgt 1b\n"
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
// on the stack. Each sum begins with what `from` makes of its name. FOUR_PRODUCTS_AND may be the
// last ones, and ends with flags: it executes `first`, which loads v, and `between`, which takes v.
#define OWN(sum) sum
#define BIAS(sum) "s3"
#define SUM(from, sum, x, y) "smlad %[" sum "], %[" x "], %[" y "], %[" from(sum) "]\n"
// clang-format off
#if defined(__ARM_FP) && (__ARM_FP & 8) != 0
// Cortex-M7, with double precision, executes another instruction beside each SMLAD, so eight cycles
// suffice for two products of each sum. What the next ones begin with is loaded ahead. 0.94
// instructions per product: loads that change their address would be executed alone.
#define READ_AHEAD "ldr %[w], [%[weights]]\nldr %[a], [%[x]]\n"
#define TWO_PRODUCTS(from, at, move_weights, move_inputs, next_weights, next_inputs) \
  "ldr %[b], [%[x], #4 + " at "]\n"  SUM(from, "s4", "a", "w") \
  "sxtb16 %[v], %[w]\n"              SUM(from, "s5", "b", "w") \
  move_weights                       SUM(from, "s0", "a", "v") \
  "ldr %[a], [%[x], #8 + " at "]\n"  SUM(from, "s1", "b", "v") \
  "ldr %[b], [%[x], #12 + " at "]\n" SUM(from, "s6", "a", "w") \
  move_inputs                        SUM(from, "s7", "b", "w") \
  next_weights                       SUM(from, "s2", "a", "v") \
  next_inputs                        SUM(from, "s3", "b", "v")
#define FOUR_PRODUCTS_OF(from, next_weights, next_inputs) \
  TWO_PRODUCTS(from, "0", "", "", "ldr %[w], [%[weights], #4]\n", "ldr %[a], [%[x], #16]\n") \
  TWO_PRODUCTS(OWN, "16", "add %[weights], #8\n", "add %[x], #32\n", next_weights, next_inputs)
#define FOUR_PRODUCTS FOUR_PRODUCTS_OF(OWN, "ldr %[w], [%[weights]]\n", "ldr %[a], [%[x]]\n")
#define FOUR_PRODUCTS_AND(from, first, between) FOUR_PRODUCTS_OF(from, "", "") first between
#define ENTER_LOOP "beq 7f\n" READ_AHEAD "bmi 4b\nbcs 2f\n"
/// Words from where FOUR_PRODUCTS_AND compares addresses to the end of its inputs.
constexpr int32_t kWordsAfterwards = 0;
#else
// 0.8 instructions per product. On Cortex-M4 each load but the first of adjacent ones takes one
// cycle; LDRD takes three beside others, too.
#define READ_AHEAD ""
#define TWO_PRODUCTS(from, first, between) \
  first \
  "ldr %[w], [%[weights]], #4\n" \
  "ldr %[b], [%[x], #4]\n" \
  "ldr %[a], [%[x]], #8\n" \
  between \
  "sxtb16 %[v], %[w]\n" \
  SUM(from, "s4", "a", "w") SUM(from, "s0", "a", "v") \
  SUM(from, "s5", "b", "w") SUM(from, "s1", "b", "v") \
  "ldrd %[a], %[b], [%[x]], #8\n" \
  SUM(from, "s6", "a", "w") SUM(from, "s2", "a", "v") \
  SUM(from, "s7", "b", "w") SUM(from, "s3", "b", "v")
#define FOUR_PRODUCTS TWO_PRODUCTS(OWN, "", "") TWO_PRODUCTS(OWN, "", "")
#define FOUR_PRODUCTS_AND(from, first, between) \
  TWO_PRODUCTS(from, "", "") TWO_PRODUCTS(OWN, first, between)
#define ENTER_LOOP "bmi 4b\nbcs 2f\nbeq 7f\n"
constexpr int32_t kWordsAfterwards = 2;
#endif
// clang-format on
// Compares the address of the lanes with `end` for the branch that ends an iteration.
#define LAST_FOUR_PRODUCTS(end) FOUR_PRODUCTS_AND(OWN, "ldr %[v], " end "\n", "cmp %[v], %[x]\n")

ET_INLINE const int8_t*
dot_short_lanes(const uint32_t*& lanes, const int8_t* weights, int32_t count, int32_t (&sums)[8]) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  int32_t s4 = s0, s5 = s1, s6 = s2, s7 = s3;
  const uint32_t* const end = lanes + count / 2 * kLanes - kWordsAfterwards;
  uint32_t a, b, v, w;
  MEMORY_WORDS(a, memory_word(end), 0);
  __asm__ volatile(PUSH_MEMORY("1, 0", "%[a]", "%[b]") "1:\n" READ_AHEAD LAST_FOUR_PRODUCTS(
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

// Scale::apply() of four sums, doubled ones by SCALED: `x` has -2^31 shifted to the right by
// Scale::shift, `w` the multiplier, and `b` the output's zero point. Neighbours don't wait for each
// other: Cortex-M7 executes two at a time.
#define FOUR(step, s0, s1, s2, s3) step(s0) step(s1) step(s2) step(s3)
#define DOUBLED(sum) "add %[" sum "], %[" sum "]\n"
#define MULTIPLIED(sum) "smmulr %[" sum "], %[" sum "], %[w]\n"
#define AWAY_FROM_ZERO(sum) "add %[" sum "], %[" sum "], %[" sum "], asr #31\n"
#define SHIFTED(sum) "smmlsr %[" sum "], %[" sum "], %[x], %[b]\n"
#define SATURATED(sum) "ssat %[" sum "], #8, %[" sum "]\n"
#define SCALED(s0, s1, s2, s3)     \
  FOUR(MULTIPLIED, s0, s1, s2, s3) \
  FOUR(AWAY_FROM_ZERO, s0, s1, s2, s3) FOUR(SHIFTED, s0, s1, s2, s3) FOUR(SATURATED, s0, s1, s2, s3)

/// Stores four outputs of one factor, of a layer that is not wide.
ET_INLINE void
store_lanes(int32_t s0, int32_t s1, int32_t s2, int32_t s3, Scale scale, int8_t* out) {
  __asm__ volatile(FOUR(DOUBLED, "s0", "s1", "s2", "s3") SCALED("s0", "s1", "s2", "s3")
                   "strb %[s0], [%[out]]; strb %[s1], [%[out], #1]; strb %[s2], [%[out], #2]\n"
                   "strb %[s3], [%[out], #3]\n"
                   : FOUR_SUMS
                   : [w] "r"(scale.multiplier),
                     [x] "r"(INT32_MIN >> (scale.shift & 31)),
                     [b] "r"(scale.addend >> 1),
                     [out] "r"(out)
                   : "memory", "cc");
}

#define TWO_BYTES(low, high) "bfi " low ", " high ", #8, #8\n"
#define NEXT_FACTORS \
  "ldr %[w], [%[v]], #4\n" \
  "ldrsb %[x], [%[a]], #1\n" \
  "str %[v], " IN_MEMORY(multipliers, 1) "\n" \
  "mov %[v], #0x80000000\n" \
  "str %[a], " IN_MEMORY(shifts, 2) "\n" \
  "asr %[x], %[v], %[x]\n"

// Both channels' outputs of a pixel are neighbours: `w` is where the first pixel's are, and the
// others are `x` bytes apart.
#define STORED_BY_PIXELS      \
  TWO_BYTES("%[s0]", "%[s4]") \
  "strh %[s0], [%[w]], #2\n" \
  "str %[w], " IN_MEMORY(out, 3) "\n" \
  "add %[w], %[x]\n" TWO_BYTES("%[s1]", "%[s5]") \
  "strh %[s1], [%[w], #-2]\n" \
  "add %[w], %[x]\n" TWO_BYTES("%[s2]", "%[s6]") \
  "strh %[s2], [%[w], #-2]\n" \
  "add %[w], %[x]\n" TWO_BYTES("%[s3]", "%[s7]") \
  "strh %[s3], [%[w], #-2]\n"
// The four outputs of a channel are neighbours, and the channels are `x` bytes apart.
#define STORED_BY_CHANNELS \
  TWO_BYTES("%[s0]", "%[s1]") TWO_BYTES("%[s2]", "%[s3]") \
  "pkhbt %[s0], %[s0], %[s2], lsl #16\n" \
  "str %[s0], [%[w]]\n" \
  "add %[w], %[x]\n" \
  TWO_BYTES("%[s4]", "%[s5]") TWO_BYTES("%[s6]", "%[s7]") \
  "pkhbt %[s4], %[s4], %[s6], lsl #16\n" \
  "str %[s4], [%[w]]\n" \
  "add %[w], %[x]\n" \
  "str %[w], " IN_MEMORY(out, 3) "\n"

// The asm statement of pairs_to_outputs(), which moves on to the factors of a pair's second channel
// and of the next pair by `next_factors`.
#define PAIRS(next_factors, stored) \
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
      READ_AHEAD \
      FOUR_PRODUCTS_AND(BIAS, "ldr %[v], " IN_MEMORY(rest, 6) "\n", "lsls %[v], #29\n") \
      ENTER_LOOP \
      ".p2align 2\n" \
      "1:\n" READ_AHEAD FOUR_PRODUCTS \
      "6:\n" FOUR_PRODUCTS \
      "2:\n" FOUR_PRODUCTS \
      "5:\n" LAST_FOUR_PRODUCTS(IN_MEMORY(end, 7)) \
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
      "add %[w], %[w]\n" \
      "str %[x], " IN_MEMORY(bias, 0) "\n" \
      "add %[s4], %[w], %[s4], asr #7\n" \
      "add %[s5], %[w], %[s5], asr #7\n" \
      "add %[s6], %[w], %[s6], asr #7\n" \
      "add %[s7], %[w], %[s7], asr #7\n" \
      "ldr %[w], [%[v]], #4\n" \
      "ldrsb %[x], [%[a]], #1\n" \
      "mov %[b], #0x80000000\n" \
      "asr %[x], %[b], %[x]\n" \
      "ldr %[b], " IN_MEMORY(zero_point, 9) "\n" \
      FOUR(DOUBLED, "s0", "s1", "s2", "s3") SCALED("s0", "s1", "s2", "s3") next_factors \
      SCALED("s4", "s5", "s6", "s7") \
      "ldr %[w], " IN_MEMORY(out, 3) "\n" \
      "ldr %[x], " IN_MEMORY(step, 8) "\n" \
      "ldr %[b], " IN_MEMORY(last, 4) "\n" stored \
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
        [zero_point] "m"(zero_point)) \
      : "memory", "cc")

/**
 * Computes the outputs of a layer that is not wide and has_short_sums(), at four pixels, of pairs
 * of channels. Returns where their weights end.
 *
 * @tparam kFactorStep That of the layer.
 * @tparam kTransposed Whether the outputs of a channel are neighbours, not those of a pixel.
 * @param[in] pairs At least one.
 * @param[in] step The distance between outputs that are no neighbours.
 */
template <int32_t kFactorStep, bool kTransposed>
ET_INLINE const int8_t* pairs_to_outputs(
    const PackedParts& parts,
    const uint32_t* expanded,
    int32_t pairs,
    int32_t step,
    int8_t* out) {
  const int32_t inner = parts.padded_inner;
  // The loop's entry after four products: bits 3 and 2 of the remaining count, or 0.
  const int32_t rest = ((inner - 4) & 12) | static_cast<int32_t>(inner > 4);
  const uint32_t* const end = expanded + inner / 2 * kLanes - kWordsAfterwards;
  const int32_t zero_point = parts.layer->output_offset;
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
      memory_word(zero_point));
  // The compiler would move sums from one register to another, for each pair some thirty times.
  if constexpr (kTransposed) {
    PAIRS("", STORED_BY_CHANNELS);
  } else if constexpr (kFactorStep == 0) {
    PAIRS("", STORED_BY_PIXELS);
  } else {
    PAIRS(NEXT_FACTORS, STORED_BY_PIXELS);
  }
  return weights;
}

#undef PAIRS
#undef STORED_BY_CHANNELS
#undef STORED_BY_PIXELS
#undef NEXT_FACTORS
#undef TWO_BYTES
#undef LAST_FOUR_PRODUCTS
#undef ENTER_LOOP
#undef FOUR_PRODUCTS_AND
#undef FOUR_PRODUCTS
#undef FOUR_PRODUCTS_OF
#undef TWO_PRODUCTS
#undef READ_AHEAD
#undef SUM
#undef BIAS
#undef OWN

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

#define PAIR(a, b, p, q)                   \
  "smlad %[" q "], %[w], %[" a "], %[" q   \
  "]\n"                                    \
  "sxtb16 %[" a "], %[" a                  \
  "]\n"                                    \
  "smlad %[" q "], %[odd], %[" b "], %[" q \
  "]\n"                                    \
  "sxtb16 %[" b "], %[" b                  \
  "]\n"                                    \
  "smlad %[" p "], %[w], %[" a "], %[" p   \
  "]\n"                                    \
  "smlad %[" p "], %[odd], %[" b "], %[" p "]\n"
#define INPUTS "sxtb16 %[w], %[odd]\nsxtb16 %[odd], %[odd], ror #8\n"

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
  uint32_t w, odd, a, b;
  // 1.2 instructions per product.
#define FOUR_INPUTS                                \
  "ldr %[odd], [%[x]], #4\n"                       \
  "ldrd %[a], %[b], [%[first]], #8\n" INPUTS PAIR( \
      "a", "b", "s0", "s1") "ldrd %[a], %[b], [%[second]], #8\n" PAIR("a", "b", "s2", "s3")
  if (x != end) {
    __asm__ volatile("1:\n" FOUR_INPUTS FOUR_INPUTS "cmp %[x], %[end]; bne 1b\n"
                     : FOUR_SUMS,
                       [x] "+r"(x),
                       [first] "+r"(first),
                       [second] "+r"(second),
                       [w] "=&r"(w),
                       [odd] "=&r"(odd),
                       [a] "=&r"(a),
                       [b] "=&r"(b)
                     : [end] "r"(end)
                     : "memory", "cc");
  }
#undef FOUR_INPUTS
}

// 1.2 instructions per product. For adjacent loads see TWO_PRODUCTS.
#define FOUR_OF_MANY                  \
  "ldr %[c], [%[weights], %[step]]\n" \
  "ldr %[a], [%[weights]], #4\n"      \
  "ldr %[odd], [%[x]], #4\n"          \
  "ldr %[d], [%[weights], %[step]]\n" \
  "ldr %[b], [%[weights]], #4\n" INPUTS PAIR("a", "b", "s0", "s1") PAIR("c", "d", "s2", "s3")

// The asm statement of fours_of_many(). Wide instructions align the loop without one more. The flag
// that `before` clears says whether turns are whole; `behind` takes the last inputs.
#define FOURS(before, behind, ...) \
  __asm__ volatile( \
      PUSH_MEMORY("9, 8, 7, 6, 5, 4, 3, 2, 1, 0", "%[a]", "%[b]") \
      "ldr %[a], " IN_MEMORY(bias, 0) "\n" \
      "b 6f\n" \
      /* 24, 16 or 8 inputs more than the turns take. */ \
      "5:\n" \
      "sub %[d], %[end], %[x]; lsls %[d], %[d], #28; bhi 2f; bcs 3f; b 4f\n" \
      ".p2align 2\n" \
      "6:\n" \
      "ldr.w %[x], " IN_MEMORY(in, 1) "\n" \
      "ldr.w %[s0], [%[a]]\n" \
      "ldr.w %[s2], [%[a], #8]\n" \
      "mov.w %[s1], %[s0]\n" \
      "mov.w %[s3], %[s2]\n" before \
      "bne.w 5b\n" \
      ".p2align 2\n" \
      "1:\n" FOUR_OF_MANY FOUR_OF_MANY "2:\n" FOUR_OF_MANY FOUR_OF_MANY \
      "3:\n" FOUR_OF_MANY FOUR_OF_MANY "4:\n" FOUR_OF_MANY FOUR_OF_MANY \
      "cmp %[x], %[end]; bne 1b\n" behind \
      "ldr %[a], " IN_MEMORY(bias, 0) "\n" \
      "ldr %[w], " IN_MEMORY(multiplier, 2) "\n" \
      "ldr %[x], " IN_MEMORY(scale, 3) "\n" \
      "ldr %[b], " IN_MEMORY(zero_point, 4) "\n" \
      "ldr %[odd], " IN_MEMORY(base, 5) "\n" \
      "ldr %[c], [%[a], #4]\n" \
      "ldr %[d], [%[a], #12]\n" \
      "sub %[s1], %[s0]\n" \
      "sub %[s3], %[s2]\n" \
      "add %[odd], %[odd], %[a], lsr #2\n" \
      "add %[a], #16\n" \
      "add %[s1], %[c], %[s1], asr #8\n" \
      "add %[s3], %[d], %[s3], asr #8\n" \
      "str %[a], " IN_MEMORY(bias, 0) "\n" \
      "ldr %[c], " IN_MEMORY(last, 6) "\n" \
      "add %[weights], %[step]\n" \
      FOUR(DOUBLED, "s0", "s1", "s2", "s3") SCALED("s0", "s1", "s2", "s3") \
      "strb %[s0], [%[odd]]; strb %[s1], [%[odd], #1]\n" \
      "strb %[s2], [%[odd], #2]; strb %[s3], [%[odd], #3]\n" \
      "cmp %[a], %[c]; bne 6b\n" POP_MEMORY(10) \
      : [s0] "=&r"(s0), \
        [s1] "=&r"(s1), \
        [s2] "=&r"(s2), \
        [s3] "=&r"(s3), \
        [x] "=&r"(x), \
        [weights] "+r"(weights), \
        [w] "=&r"(w), \
        [odd] "=&r"(odd), \
        [a] MEMORY_ADDRESS(a), \
        [b] "=&r"(b), \
        [c] "=&r"(c), \
        [d] "=&r"(d) \
        WITH_GCC(, [bias] "+m"(bias)) \
      : [step] "r"(step), [end] "r"(end) \
        WITH_GCC(, [in] "m"(in), [multiplier] "m"(multiplier), \
        [scale] "m"(scale), [zero_point] "m"(zero_point), \
        [base] "m"(base), [last] "m"(last) __VA_ARGS__) \
      : "memory", "cc")

/// Computes the outputs of a vector that are in fours of channels, at least one, of a linear layer
/// that is not wide and has_short_sums(), for kNeedsMany: 32 inputs take a turn.
///
/// @param[in] rest The inputs after the last eight, up to `rest_end`, with zeros to whole words;
///     none without kNeedsRest.
ET_INLINE void fours_of_many(
    const PackedParts& parts,
    const int8_t* in,
    int32_t eights,
    [[maybe_unused]] const uint32_t* rest,
    [[maybe_unused]] const uint32_t* rest_end,
    int8_t* out,
    uint32_t needs) {
  const PackedLayer& layer = *parts.layer;
  const int32_t* bias = parts.bias;
  const int32_t* const last = bias + (layer.channels & ~3);
  const int8_t* weights = parts.weights;
  const int32_t step = 2 * parts.padded_inner;
  const int8_t* const end = in + eights;
  const int32_t multiplier = parts.multipliers[0];
  const int32_t scale = INT32_MIN >> (parts.shifts[0] & 31);
  const int32_t zero_point = layer.output_offset;
  // Outputs are a byte where biases are a word.
  const auto base = static_cast<int32_t>(
      reinterpret_cast<uintptr_t>(out) - reinterpret_cast<uintptr_t>(bias) / 4);
  int32_t s0, s1, s2, s3;
  uint32_t x, w, odd, a, b, c, d;
  MEMORY_WORDS(
      a,
      memory_word(bias),
      memory_word(in),
      memory_word(multiplier),
      memory_word(scale),
      memory_word(zero_point),
      memory_word(base),
      memory_word(last),
      memory_word(rest),
      memory_word(rest_end),
      0);
  if ((needs & kNeedsRest) == 0) {
    FOURS("tst %[step], #48\n", "", );
  } else {
    FOURS(
        "sub %[d], %[end], %[x]; cmp %[d], #0; beq 7f; tst %[d], #24\n",
        "7:\n"
        "ldr %[x], " IN_MEMORY(rest, 7) "\n"
        "8:\n"
        "ldr %[c], " IN_MEMORY(rest_end, 8) "\n"
        "cmp %[x], %[c]; beq 9f\n" FOUR_OF_MANY "b 8b\n"
        "9:\n",
        , [rest] "m"(rest), [rest_end] "m"(rest_end));
  }
}

#undef FOURS
#undef FOUR_OF_MANY
#undef INPUTS
#undef PAIR
#undef SCALED
#undef SATURATED
#undef SHIFTED
#undef AWAY_FROM_ZERO
#undef MULTIPLIED
#undef DOUBLED
#undef FOUR

/// Takes the next four biases.
ET_INLINE void take_four(const int32_t*& bias, int32_t& s0, int32_t& s1, int32_t& s2, int32_t& s3) {
  // Compiled, it loads a pointer that is on the stack four times.
  __asm__ volatile(
      "ldrd %[s0], %[s1], [%[bias]], #8; ldrd %[s2], %[s3], [%[bias]], #8\n"
      : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [bias] "+r"(bias)
      :
      : "memory");
}

} // namespace

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
