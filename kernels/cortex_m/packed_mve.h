#pragma once

#include <arm_mve.h>

#include <cstddef>

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/packed_scale.h"

namespace torch::executor::native::cortex_m {

/// Packed layers with the M-profile vector extension. A vector holds four sums, or sixteen
/// products' operands. Intrinsics: Arm MVE Intrinsics Reference (101809).

/// Sums times their channels' factors: the products' halves rounded up, their shifts' away from
/// zero.
ET_INLINE int32x4_t requantized(int32x4_t sums, int32x4_t multipliers, int32x4_t shifts) {
  const int32x4_t high = vqrdmulhq_s32(sums, multipliers);
  // A shift to the right rounds halves up.
  return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), shifts);
}

/// Turns the sums of four channels into outputs, for layers that are not wide.
struct VectorScale {
  const int32_t* bias;
  const int32_t* multipliers;
  const int8_t* shifts;
  int32_t step;
  int32_t offset;

  /// @param[in] factor_step That of the layer: a constant where each instruction counts.
  VectorScale(const PackedParts& parts, int32_t channel, int32_t factor_step)
      : bias(parts.bias + channel),
        multipliers(parts.multipliers + channel * factor_step),
        shifts(parts.shifts + channel * factor_step),
        step(4 * factor_step),
        offset(parts.layer->output_offset) {}

  /// Stores the outputs of the next four channels.
  ET_INLINE void store(int32x4_t sums, int8_t* out) {
    vstrbq_s32(out, saturated(requantized(sums, vldrwq_s32(multipliers), vldrbq_s32(shifts))));
    move_on();
  }

  /// Does the same as store(), for three pixels whose outputs are `channels` apart, and whose sums
  /// include biases.
  ET_INLINE void store_three(const int32_t (&sums)[12], int8_t* out, int32_t channels) {
    int32x4_t a, b, c, sign;
    int8_t* second;
    __asm__ volatile(
        "vldrw.32 %q[a], [%[sums]]; vqrdmulh.s32 %q[a], %q[a], %q[factors]\n"
        "vldrw.32 %q[b], [%[sums], #16]; vqrdmulh.s32 %q[b], %q[b], %q[factors]\n"
        "vshr.s32 %q[sign], %q[a], #31; vldrw.32 %q[c], [%[sums], #32]\n"
        "vmla.s32 %q[a], %q[sign], %[one]; vshr.s32 %q[sign], %q[b], #31\n"
        "vqrdmulh.s32 %q[c], %q[c], %q[factors]; vrshl.s32 %q[a], %q[a], %q[shifts]\n"
        "vmla.s32 %q[b], %q[sign], %[one]; vshr.s32 %q[sign], %q[c], #31\n"
        "add %[second], %[out], %[channels]; vrshl.s32 %q[b], %q[b], %q[shifts]\n"
        "vmla.s32 %q[c], %q[sign], %[one]; vqmovnb.s32 %q[a], %q[a]\n"
        "vrshl.s32 %q[c], %q[c], %q[shifts]; vqmovnt.s32 %q[a], %q[b]; vqmovnb.s32 %q[c], %q[c]\n"
        "vqadd.s16 %q[a], %q[a], %[offset]; vqadd.s16 %q[c], %q[c], %[offset]\n"
        "vqmovnb.s16 %q[a], %q[a]; vqmovnb.s16 %q[c], %q[c]; vstrb.32 %q[a], [%[out]]\n"
        "vshr.u32 %q[a], %q[a], #16; vstrb.32 %q[a], [%[second]]\n"
        "add %[second], %[second], %[channels]; vstrb.32 %q[c], [%[second]]\n"
        : [a] "=&w"(a), [b] "=&w"(b), [c] "=&w"(c), [sign] "=&w"(sign), [second] "=&l"(second)
        : [sums] "l"(sums),
          [factors] "w"(vldrwq_s32(multipliers)),
          [shifts] "w"(vldrbq_s32(shifts)),
          [out] "l"(out),
          [channels] "r"(channels),
          [offset] "r"(offset),
          [one] "r"(1)
        : "memory");
    move_on();
  }

  /// Does the same as store(), for the last channels.
  ET_INLINE void store_some(int32x4_t sums, int8_t* out, mve_pred16_t active) const {
    const int32x4_t factors = vldrwq_z_s32(multipliers, active);
    vstrbq_p_s32(out, saturated(requantized(sums, factors, vldrbq_z_s32(shifts, active))), active);
  }

 private:
  ET_INLINE void move_on() {
    bias += 4;
    multipliers += step;
    shifts += step;
  }

  /// Saturates in the lowest byte of each lane, which is all that is stored.
  ET_INLINE int32x4_t saturated(int32x4_t value) const {
    int32x4_t result = vaddq_n_s32(value, offset);
    // The compiler would copy the operand to the register of the narrowed lanes.
    __asm__("vqmovnb.s32 %q0, %q0\nvqmovnb.s16 %q0, %q0" : "+w"(result));
    return result;
  }
};

/// Four sums in a vector: two instructions, where the compiler would take four. The first register
/// of each goes to the lower lane, which is named second.
ET_INLINE int32x4_t four(int32_t s0, int32_t s1, int32_t s2, int32_t s3) {
  int32x4_t result;
  __asm__("vmov %q0[2], %q0[0], %1, %3; vmov %q0[3], %q0[1], %2, %4\n"
          : "=&w"(result)
          : "r"(s0), "r"(s1), "r"(s2), "r"(s3));
  return result;
}

// The compiler would copy adjacent words by vectors, of which each takes stack.
#define WITHOUT_VECTORS __attribute__((noinline WITH_GCC(, optimize("no-tree-slp-vectorize"))))

/// Copies the next of the windows that a layer reads one after another, and returns the copy.
using NextWindow = const int8_t*(void* windows);

/**
 * All full groups of four outputs of `pixels` vectors, from `in` or `next`, each of which
 * `kVectors` registers hold, the last one to its end if `kWhole`. Inputs of a vector are read
 * before its outputs are written. While the sums of a group are computed, the last group's become
 * outputs, also that of the vector before: on Cortex-M55 neighbours that need the same unit take a
 * cycle more, so loads, multiplications and the rest take turns.
 */
template <int32_t kFactorStep, int32_t kVectors, bool kWhole>
WITHOUT_VECTORS void short_rows(
    const PackedParts& parts,
    const int8_t* in,
    int32_t pixels,
    int8_t* out,
    NextWindow* next,
    void* windows) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const int32_t rest = inner - 16 * (kVectors - 1);
  if (pixels <= 0) {
    return;
  }
  VectorScale scale(parts, 0, kFactorStep);
  struct {
    const int32_t* bias;
    const int32_t* multipliers;
    const int8_t* shifts;
    int8_t* out;
  } first = {scale.bias, scale.multipliers, scale.shifts, out};
  int8_t* to = out;
  // The first outputs are written twice, since no group is before theirs.
  int32x4_t sums = vdupq_n_s32(0);
  for (; pixels > 0; --pixels) {
    if (next != nullptr) {
      in = next(windows);
    }
    int8x16_t x[static_cast<size_t>(kVectors)];
    for (int32_t i = 0; i + 1 < kVectors; ++i) {
      x[i] = vldrbq_s8(in + 16 * i);
    }
    const int8_t* const last = in + 16 * (kVectors - 1);
    x[kVectors - 1] =
        kWhole ? vldrbq_s8(last) : vldrbq_z_s8(last, vctp8q(static_cast<uint32_t>(rest)));
    const int8_t* weights = parts.weights;
    int32_t others = channels / 4 - 1;
    int32_t s0, s1, s2;
    int8x16_t w;
    int32x4_t factors;
// A row of weights times the vector, and other instructions in between.
#define ROW_LOAD "vldrb.8 %q[w], [%[weights]], #16\n"
#define ROW_PRODUCT(name, sum, i) name ".s8 %[" #sum "], %q[x" #i "], %q[w]\n"
#define ROW_PRODUCTS(sum, loaded, first, loaded_second, second, end) \
  ROW_LOAD loaded ROW_PRODUCT("vmladav", sum, 0)                                               \
  first ".if %c[vectors] > 1\n" ROW_LOAD ".endif\n"                                            \
  loaded_second ".if %c[vectors] > 1\n" ROW_PRODUCT("vmladava", sum, 1) ".endif\n"             \
  second ".if %c[vectors] > 2\n" ROW_LOAD ROW_PRODUCT("vmladava", sum, 2) ".endif\n"           \
  ".if %c[vectors] > 3\n" ROW_LOAD ROW_PRODUCT("vmladava", sum, 3) ".endif\n"                  \
  ".if !%c[whole]\nadd %[weights], %[weights], %[back]\n.endif\n" end
// Loads factors of the next group, which linear layers have once.
#define NEXT_FACTORS(load, from, bytes)                          \
  ".if %c[step]\n" load " %q[factors], [%[" #from "]], #" #bytes \
  "\n"                                                           \
  ".else\n" load " %q[factors], [%[" #from "]]\n.endif\n"
    // clang-format off
    // One group, with the vector's before, and then the others.
    __asm__ volatile(
        "mov lr, #1\n1:\n"
        ROW_PRODUCTS(s0, "", "vldrw.32 %q[factors], [%[bias]], #16; vadd.i32 %q[sums], %q[sums], %q[factors]\n", "",
            NEXT_FACTORS("vldrw.32", multipliers, 16) "vqrdmulh.s32 %q[sums], %q[sums], %q[factors]\n",
            "vshr.s32 %q[factors], %q[sums], #31\n")
        ROW_PRODUCTS(s1, "", "vadd.i32 %q[sums], %q[sums], %q[factors]\n", "",
            NEXT_FACTORS("vldrb.s32", shifts, 4) "vrshl.s32 %q[sums], %q[sums], %q[factors]\n",
            "vadd.i32 %q[sums], %q[sums], %[offset]\n")
        ROW_PRODUCTS(s2, "vqmovnb.s32 %q[sums], %q[sums]\n", "", "vqmovnb.s16 %q[sums], %q[sums]\n", "",
            "vstrb.32 %q[sums], [%[to]], #4\n")
        "vmov %q[sums][2], %q[sums][0], %[s0], %[s2]\n"
        ROW_PRODUCTS(s0, "", "", "", "", "")
        "vmov %q[sums][3], %q[sums][1], %[s1], %[s0]; le lr, 1b; cmp %[others], #0; blt 2f\n"
        "ldrd %[bias], %[multipliers], [%[first]]; ldrd %[shifts], %[to], [%[first], #8]\n"
        "wls lr, %[others], 2f; mvn %[others], #0; b 1b\n"
        "2:\n"
        : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [s2] "=&Te"(s2), [weights] "+r"(weights), [bias] "+r"(scale.bias),
          [multipliers] "+r"(scale.multipliers), [shifts] "+l"(scale.shifts), [to] "+l"(to), [others] "+r"(others),
          [sums] "+w"(sums), [w] "=&w"(w), [factors] "=&w"(factors)
        : [x0] "w"(x[0]), [x1] "w"(x[kVectors > 1 ? 1 : 0]), [x2] "w"(x[kVectors > 2 ? 2 : 0]),
          [x3] "w"(x[kVectors > 3 ? 3 : 0]), [first] "r"(&first), [back] "r"(rest - 16), [offset] "r"(scale.offset),
          [vectors] "i"(kVectors), [whole] "i"(kWhole), [step] "i"(kFactorStep)
        : "memory", "cc", "lr");
    // clang-format on
#undef ROW_LOAD
#undef ROW_PRODUCT
#undef ROW_PRODUCTS
#undef NEXT_FACTORS
    in += inner;
    first.out += channels;
  }
  scale.store(vaddq_s32(sums, vldrwq_s32(scale.bias)), to);
}

// What assembly changes that takes all registers but r7: memory, and registers but r3 and q2 to q7.
#define OTHER_REGISTERS                                                                            \
  "memory", "cc", "r0", "r1", "r2", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "q0", \
      "q1"

// A vector times four rows of weights, of which the first instruction masks the inputs behind the
// last. Ten instructions for 64 products; the compiler would compute addresses, too.
#define FOUR_ROWS(sum, row) "vldrb.8 q1, [" row "], #16\nvmladava.s8 " sum ", q0, q1\n"
#define MULTIPLY_ROWS(count, x, s0, w0, s1, w1, s2, w2, s3, w3)                                   \
  "wlstp.8 lr, " count ", 3f\n2:\nvldrb.8 q0, [" x "], #16\n" FOUR_ROWS(s0, w0) FOUR_ROWS(s1, w1) \
      FOUR_ROWS(s2, w2) FOUR_ROWS(s3, w3) "letp lr, 2b\n3:\n"

/// The sums of the products of a vector with `rows` (at most four) rows of weights.
ET_INLINE int32x4_t
multiply_rows(const int8_t* x, const int8_t*& weights, int32_t count, int32_t rows) {
  const int8_t* w0 = weights;
  const int8_t* w1 = rows > 1 ? w0 + count : w0;
  const int8_t* w2 = rows > 2 ? w1 + count : w0;
  const int8_t* w3 = rows > 3 ? w2 + count : w0;
  weights += rows * count;
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  // clang-format off
  __asm__ volatile(
      MULTIPLY_ROWS("%[count]", "%[x]", "%[s0]", "%[w0]", "%[s1]", "%[w1]", "%[s2]", "%[w2]", "%[s3]", "%[w3]")
      : [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3), [x] "+r"(x),
        [w0] "+r"(w0), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3)
      : [count] "r"(count)
      : "memory", "lr", "q0", "q1");
  // clang-format on
  return four(s0, s1, s2, s3);
}

/// What the loop of rows_by_fours() reads, in the order in which one instruction loads the first
/// four.
struct RowProducts {
  int8_t* out;
  const int8_t* weights;
  const int8_t* shifts;
  const int32_t* bias;
  const int32_t* multipliers;
  /// The distance from a group's multipliers to the next one's.
  int32_t step;
  const int8_t* x;
  int32_t inner;
  /// Inputs behind the first sixteen.
  int32_t others;
  /// The distance from behind the last vector of a row to the next row.
  int32_t back;
  int32_t offset;
  int8_t* last;
};

/**
 * All full groups of four outputs of one vector of at least sixteen inputs, of a layer that is not
 * wide. A function of its own: within a larger one the compiler would keep most of it on the stack.
 * The last group's sums become outputs in between the first products of a group.
 */
inline WITHOUT_VECTORS void rows_by_fours(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t inner = parts.inner;
  const int32_t last = (parts.layer->channels & ~3) - 4;
  const int8_t* weights = parts.weights;
  int32x4_t sums = multiply_rows(in, weights, inner, 4);
  if (last > 0) {
    RowProducts products;
    products.out = out;
    products.weights = weights;
    products.shifts = parts.shifts;
    products.bias = parts.bias;
    products.multipliers = parts.multipliers;
    products.step = 16 * parts.factor_step;
    products.x = in;
    products.inner = inner;
    products.others = inner - 16;
    products.back = -(-inner & 15);
    products.offset = parts.layer->output_offset;
    products.last = out + last;
    register RowProducts* from __asm__("r7") = &products;
    __asm__ volatile(
        "ldm %[from], {r0, r1, r2, r4}\n"
        "1:\n"
        "ldrd r11, lr, [%[from], #24]; vldrb.8 q0, [r11], #16; add r3, r1, lr; add r5, r3, lr\n"
        "vldrb.8 q1, [r1], #16; vmladav.s8 r6, q0, q1; vldrb.8 q1, [r3], #16; add r9, r5, lr\n"
        "vmladav.s8 r8, q0, q1; ldrd r10, r12, [%[from], #16]; vldrw.32 q3, [r4], #16\n"
        "vadd.i32 %q[sums], %q[sums], q3; vldrw.32 q3, [r10]; add r10, r12\n"
        "vqrdmulh.s32 %q[sums], %q[sums], q3; str r10, [%[from], #16]; vshr.s32 q3, %q[sums], #31\n"
        "vldrb.8 q1, [r5], #16; vadd.i32 %q[sums], %q[sums], q3; vldrb.s32 q3, [r2]\n"
        "vrshl.s32 %q[sums], %q[sums], q3; vmladav.s8 r10, q0, q1; ldr lr, [%[from], #40]\n"
        "vadd.i32 %q[sums], %q[sums], lr; vldrb.8 q1, [r9], #16; vqmovnb.s32 %q[sums], %q[sums]\n"
        "add r2, r2, r12, lsr #2; vmladav.s8 r12, q0, q1; vqmovnb.s16 %q[sums], %q[sums]\n"
        "ldr lr, [%[from], #32]; vstrb.32 %q[sums], [r0], #4\n"
        MULTIPLY_ROWS("lr", "r11", "r6", "r1", "r8", "r3", "r10", "r5", "r12", "r9")
        "ldr lr, [%[from], #36]; vmov %q[sums][2], %q[sums][0], r6, r10; add r1, r9, lr\n"
        "ldr lr, [%[from], #44]; vmov %q[sums][3], %q[sums][1], r8, r12; cmp r0, lr; bne 1b\n"
        : [sums] "+w"(sums)
        : [from] "r"(from)
        : OTHER_REGISTERS, "r3", "q3");
  }
  VectorScale scale(parts, last, parts.factor_step);
  scale.store(vaddq_s32(sums, vldrwq_s32(scale.bias)), out + last);
}

#undef MULTIPLY_ROWS
#undef FOUR_ROWS

// A vector of inputs times four rows of weights, and another instruction beside its load.
#define VECTOR(number, name, beside)                                                  \
  "vldrb.8 q0, [%[x], #16 * " number "]\n" beside "\nvldrb.8 q1, [%[w0]], #16\n" name \
  ".s8 %[s0], q0, q1\nvldrb.8 q1, [%[w1]], #16\n" name                                \
  ".s8 %[s1], q0, q1\nvldrb.8 q1, [%[w2]], #16\n" name                                \
  ".s8 %[s2], q0, q1\nvldrb.8 q1, [%[w3]], #16\n" name ".s8 %[s3], q0, q1\n"

/// Does the same as rows_by_fours() for a linear layer of a multiple of 128 inputs: the last
/// group's sums become outputs beside the loads of the first eight vectors of inputs.
inline WITHOUT_VECTORS void
linear_by_fours(const PackedParts& parts, const int8_t* in, int8_t* out) {
  const int32_t inner = parts.inner;
  int8_t* const last = out + (parts.layer->channels & ~3) - 4;
  const int8_t* w3 = parts.weights;
  int32x4_t sums = multiply_rows(in, w3, inner, 4);
  const int32_t* bias = parts.bias;
  if (out != last) {
    int32_t s0, s1, s2, s3;
    const int8_t *w0, *w1, *w2;
    __asm__ volatile(
        "1:\n"
        "mov %[w0], %[w3]; add %[w1], %[w3], %[inner]; add %[w2], %[w1], %[inner]\n"
        "add %[w3], %[w2], %[inner]; vldrw.32 q3, [%[bias]], #16\n"
        VECTOR("0", "vmladav", "vadd.i32 %q[sums], %q[sums], q3")
        VECTOR("1", "vmladava", "vqrdmulh.s32 %q[sums], %q[sums], %q[multipliers]")
        VECTOR("2", "vmladava", "vshr.s32 q3, %q[sums], #31")
        VECTOR("3", "vmladava", "vadd.i32 %q[sums], %q[sums], q3")
        VECTOR("4", "vmladava", "vrshl.s32 %q[sums], %q[sums], %q[shifts]")
        VECTOR("5", "vmladava", "vadd.i32 %q[sums], %q[sums], %q[offsets]")
        VECTOR("6", "vmladava", "vqmovnb.s32 %q[sums], %q[sums]")
        VECTOR("7", "vmladava", "vqmovnb.s16 %q[sums], %q[sums]")
        "sub lr, %[inner], #128; add %[x], #128; vstrb.32 %q[sums], [%[out]], #4\n"
        "wlstp.8 lr, lr, 3f\n"
        "2:\n"
        VECTOR("0", "vmladava", "add %[x], #16")
        "letp lr, 2b\n"
        "3:\n"
        "vmov %q[sums][2], %q[sums][0], %[s0], %[s2]; sub %[x], %[inner]\n"
        "vmov %q[sums][3], %q[sums][1], %[s1], %[s3]; cmp %[out], %[last]; bne 1b\n"
        : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [s2] "=&Te"(s2), [s3] "=&Te"(s3), [w0] "=&r"(w0), [w1] "=&r"(w1),
          [w2] "=&r"(w2), [w3] "+r"(w3), [x] "+r"(in), [bias] "+r"(bias), [out] "+l"(out), [sums] "+w"(sums)
        : [inner] "r"(inner), [last] "r"(last), [multipliers] "w"(vdupq_n_s32(parts.multipliers[0])),
          [shifts] "w"(vdupq_n_s32(parts.shifts[0])), [offsets] "w"(vdupq_n_s32(parts.layer->output_offset))
        : "memory", "cc", "lr", "q0", "q1", "q3");
  }
  VectorScale scale(parts, 0, 0);
  scale.store(vaddq_s32(sums, vldrwq_s32(bias)), out);
}

#undef VECTOR

/// Stores up to four outputs of a layer that is wide.
inline void store_wide(const PackedParts& parts, int32x4_t value, int32_t channel, int8_t* out) {
  int32_t sums[4];
  vstrwq_s32(sums, value);
  for (int32_t i = 0; i < 4 && channel + i < parts.layer->channels; ++i) {
    out[i] = scale_wide(parts, sums[i], channel + i);
  }
}

/// Computes the outputs of one vector from `channel` on. It is not inlined, so that the caller
/// needs less stack.
inline __attribute__((noinline)) void
last_rows(const PackedParts& parts, const int8_t* in, int32_t channel, int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const bool is_wide = parts.layer->is_wide != 0;
  const int8_t* weights = parts.weights + channel * inner;
  const VectorScale scale(parts, channel, parts.factor_step);
  for (; channel < channels; channel += 4) {
    const int32_t left = channels - channel;
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(left));
    const int32x4_t sums = vaddq_s32(
        multiply_rows(in, weights, inner, left < 4 ? left : 4),
        vldrwq_z_s32(parts.bias + channel, active));
    if (is_wide) {
      store_wide(parts, sums, channel, out + channel);
    } else {
      scale.store_some(sums, out + channel, active);
    }
  }
}

/// Returns short_rows() for at most 64 inputs, of a layer whose outputs have factors of their own.
inline auto short_rows_of(int32_t inner) {
  return inner == 64 ? short_rows<1, 4, true>
      : inner > 48   ? short_rows<1, 4, false>
      : inner > 32   ? short_rows<1, 3, false>
      : inner > 16   ? short_rows<1, 2, false>
                     : short_rows<1, 1, false>;
}

/// Computes all outputs of one vector; `needs` are PackedNeeds, of which kNeedsMany matters.
inline void
rows_to_outputs(const PackedParts& parts, const int8_t* in, int8_t* out, uint32_t needs = 0) {
  const int32_t channels = parts.layer->channels;
  const int32_t inner = parts.inner;
  const bool is_wide = parts.layer->is_wide != 0;
  const bool is_linear = parts.factor_step == 0;
  int32_t channel = 0;
  if (!is_wide && channels >= 4) {
    // Linear layers have few rows; code for each length would take more flash than it is worth.
    if (inner <= (is_linear ? 16 : 64)) {
      (is_linear ? short_rows<0, 1, false> : short_rows_of(inner))(
          parts, in, 1, out, nullptr, nullptr);
    } else if ((needs & kNeedsMany) != 0 && is_linear && inner % 128 == 0) {
      linear_by_fours(parts, in, out);
    } else {
      rows_by_fours(parts, in, out);
    }
    channel = channels & ~3;
  }
  if (channel < channels) {
    last_rows(parts, in, channel, out);
  }
}

/// Returns whether short_rows() computes all outputs of a layer.
inline bool are_short_pixels(const PackedParts& parts) {
  return parts.layer->is_wide == 0 && parts.inner <= 64 && parts.layer->channels % 4 == 0;
}

/// The windows of a row of outputs that are inside an image, in the order in which one of them is
/// read: `count` rows of `bytes` bytes, a multiple of sixteen.
struct WindowRows {
  int32_t count;
  int32_t bytes;
  /// The distance from the end of a row to the next one.
  int32_t jump;
  /// The distance from a window to the next one.
  int32_t step;
};

/// Windows that are multiplied at a time.
constexpr int32_t kWindows = 3;

/// The arguments of multiply_windows(), in the order in which one instruction loads the first five.
struct alignas(16) WindowProducts {
  const int8_t* x[kWindows];
  /// The next channel's weights.
  const int8_t* weights;
  int32_t rows;
  /// The next channel's bias.
  const int32_t* bias;
  /// The same as in WindowRows.
  int32_t loops;
  int32_t jump;
  /// Bytes of a channel's weights.
  int32_t inner;
  /// The address for the next two channels' sums of the first window: sums[0] or sums[2].
  int32_t* next;
  int32_t unused[2];
  /// Four channels' sums of a window, then the next window's.
  int32_t sums[4 * kWindows];
};
static_assert(sizeof(void*) != 4 || offsetof(WindowProducts, sums) == 48);

/**
 * The sums of four channels for three windows: biases and products. Two channels at a time; weights
 * and biases move on. `kUnrolled` vectors at a time, of which a row of a window has a multiple:
 * eleven instructions each for 96 products, and one more per loop; on Cortex-M55 twelve cycles, as
 * loads and multiplications take turns. Of the first channel the weights are loaded a vector ahead,
 * up to the second channel's. `kOnce`: a row has no more, and a loop ends with it. All registers
 * but the one with the address are taken: sums' are even ones.
 */
template <int32_t kUnrolled, bool kOnce>
ET_INLINE void multiply_windows(WindowProducts& products) {
  register WindowProducts* from __asm__("r7") = &products;
  __asm__ volatile(
      "1:\n"
      "ldm %[from], {r1, r3, r5, r9, r12}; ldr lr, [%[from], #20]; ldrd r0, r6, [lr], #8\n"
      "str lr, [%[from], #20]; ldr lr, [%[from], #32]; add r11, r9, lr; mov r2, r0; mov r4, r0\n"
      "mov r8, r6; mov r10, r6; vldrb.8 q1, [r9], #16\n"
      "2:\n"
      ".if %c[once]\n"
      "dls lr, r12; ldr r12, [%[from], #28]\n"
      ".else\n"
      "ldr lr, [%[from], #24]; dls lr, lr\n"
      ".endif\n"
      "3:\n"
      ".set .Lleft, %c[unrolled]\n"
      ".rept %c[unrolled]\n"
      ".set .Lleft, .Lleft - 1\n"
      "vldrb.8 q0, [r1], #16; vmladava.s8 r0, q0, q1; vldrb.8 q2, [r11], #16\n"
      "vmladava.s8 r6, q0, q2\n"
      ".if %c[once] && .Lleft == 0\n"
      "add r1, r12\n"
      ".endif\n"
      "vldrb.8 q0, [r3], #16; vmladava.s8 r2, q0, q1; vldrb.8 q3, [r5], #16\n"
      "vmladava.s8 r8, q0, q2\n"
      ".if %c[once] && .Lleft == 0\n"
      "add r3, r12\n"
      ".endif\n"
      "vmladava.s8 r4, q3, q1; vldrb.8 q1, [r9], #16; vmladava.s8 r10, q3, q2\n"
      ".endr\n"
      ".if %c[once]\n"
      "add r5, r12; le lr, 3b\n"
      ".else\n"
      "le lr, 3b; ldr lr, [%[from], #28]; add r1, lr; add r3, lr; add r5, lr; subs r12, #1\n"
      "bne 2b\n"
      ".endif\n"
      // The second row ends where the next channel's begins.
      "str r11, [%[from], #12]; ldr r12, [%[from], #36]; strd r0, r6, [r12]\n"
      "strd r2, r8, [r12, #16]; strd r4, r10, [r12, #32]; eor r12, #8; str r12, [%[from], #36]\n"
      "lsls lr, r12, #28; bmi 1b\n"
      :
      : [from] "r"(from), [unrolled] "i"(kUnrolled), [once] "i"(kOnce)
      : OTHER_REGISTERS, "r3", "q2", "q3");
}

/// Computes all outputs of three windows, for a layer that is not wide and whose channels are a
/// multiple of four.
template <int32_t kUnrolled, bool kOnce>
__attribute__((noinline)) void windows_to_outputs(
    const PackedParts& parts,
    const WindowRows& rows,
    const int8_t* in,
    int8_t* out) {
  const int32_t channels = parts.layer->channels;
#ifdef __clang__
  // A variable that the stack has to be aligned for would make r7 a frame pointer.
  int64_t memory[(sizeof(WindowProducts) + 8) / sizeof(int64_t)];
  const uintptr_t address = (reinterpret_cast<uintptr_t>(memory) + 8) & ~uintptr_t{15};
  WindowProducts& products = *reinterpret_cast<WindowProducts*>(address);
#else
  WindowProducts products;
#endif
  products.x[0] = in;
  products.x[1] = in + rows.step;
  products.x[2] = in + 2 * rows.step;
  products.weights = parts.weights;
  products.rows = rows.count;
  products.bias = parts.bias;
  products.loops = static_cast<int32_t>(static_cast<uint32_t>(rows.bytes) / (16 * kUnrolled));
  products.jump = rows.jump;
  products.inner = parts.inner;
  products.next = products.sums;
  VectorScale scale(parts, 0, 1);
  for (int8_t* const end = out + channels; out != end; out += 4) {
    multiply_windows<kUnrolled, kOnce>(products);
    scale.store_three(products.sums, out, channels);
  }
}

/// The sums of sixteen channels as widening multiplications give them: vector `i` has channels
/// `i`, `i` + 4, `i` + 8 and `i` + 12. The tables of depthwise layers have this order.
struct SixteenSums {
  int32x4_t s0, s1, s2, s3;

  explicit SixteenSums(const int32_t* bias)
      : s0(vldrwq_s32(bias)),
        s1(vldrwq_s32(bias + 4)),
        s2(vldrwq_s32(bias + 8)),
        s3(vldrwq_s32(bias + 12)) {}

  /// Adds the products of sixteen channels with an element of a depthwise kernel.
  ET_INLINE void multiply(int8x16_t x, int8x16_t weights) {
    const int16x8_t even = vmullbq_int_s8(x, weights);
    const int16x8_t odd = vmulltq_int_s8(x, weights);
    s0 = vaddq_s32(s0, vmovlbq_s16(even));
    s2 = vaddq_s32(s2, vmovltq_s16(even));
    s1 = vaddq_s32(s1, vmovlbq_s16(odd));
    s3 = vaddq_s32(s3, vmovltq_s16(odd));
  }

  /// Stores the outputs of `active` channels of a layer that is not wide.
  ET_INLINE void store(
      const int32_t* multipliers,
      const int8_t* shifts,
      int32_t offset,
      int8_t* out,
      mve_pred16_t active) const {
    const int32x4_t v0 = requantized(s0, vldrwq_s32(multipliers), four_shifts<0>(shifts));
    const int32x4_t v1 = requantized(s1, vldrwq_s32(multipliers + 4), four_shifts<4>(shifts));
    const int32x4_t v2 = requantized(s2, vldrwq_s32(multipliers + 8), four_shifts<8>(shifts));
    const int32x4_t v3 = requantized(s3, vldrwq_s32(multipliers + 12), four_shifts<12>(shifts));
    int16x8_t even = narrowed(v0, v2, offset);
    const int16x8_t odd = narrowed(v1, v3, offset);
    __asm__("vqmovnb.s16 %q0, %q0\nvqmovnt.s16 %q0, %q1" : "+w"(even) : "w"(odd));
    vstrbq_p_s8(out, vreinterpretq_s8_s16(even), active);
  }

  /// Stores `count` outputs of a layer that is wide.
  void store_wide(const PackedParts& parts, int32_t channel, int32_t count, int8_t* out) const {
    int32_t sums[16];
    vstrwq_s32(sums, s0);
    vstrwq_s32(sums + 4, s1);
    vstrwq_s32(sums + 8, s2);
    vstrwq_s32(sums + 12, s3);
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at = depthwise_place(*parts.layer, i);
      out[i] = scale_wide(parts, sums[at], channel + at);
    }
  }

 private:
  /// Four shifts. The compiler would compute their address.
  template <int32_t kAt>
  ET_INLINE static int32x4_t four_shifts(const int8_t* shifts) {
    int32x4_t result;
    __asm__("vldrb.s32 %q0, [%1, %2]" : "=w"(result) : "l"(shifts), "i"(kAt), "m"(shifts[kAt]));
    return result;
  }

  /// Saturates pairs of outputs to 16 bits. The compiler would copy the operand.
  ET_INLINE static int16x8_t narrowed(int32x4_t low, int32x4_t high, int32_t offset) {
    __asm__("vqmovnb.s32 %q0, %q0\nvqmovnt.s32 %q0, %q1" : "+w"(low) : "w"(high));
    return vqaddq_n_s16(vreinterpretq_s16_s32(low), static_cast<int16_t>(offset));
  }
};

/**
 * The outputs of sixteen channels of a 3x3 depthwise kernel, of a layer that is not wide, or of the
 * last `x` ones; advances all pointers. The products of two elements are added in 16 bits; a layer
 * with two weights of -128 is wide. 131 instructions. On Cortex-M55 neighbours that need the same
 * unit take a cycle more, and the compiler would run out of registers: loads, sums and
 * multiplications take turns, and some sums are multiplications by one.
 */
// clang-format off
#define NINE_PRODUCTS(load, store) \
  "vldrb.8 q0, [%[weights]], #16; add %[x], %[row0], %[step]; " load " q1, [%[row0]], #16\n" \
  "vmullt.s8 q2, q1, q0; " load " q3, [%[x]]; vmullb.s8 q1, q1, q0; vldrb.8 q0, [%[weights]], #16\n" \
  "vmullb.s8 q3, q3, q0; " load " q4, [%[x]]; vmullt.s8 q4, q4, q0; add %[x], %[x], %[step]\n" \
  "vmla.s16 q2, q4, %[one]; vldrw.32 q0, [%[bias]], #16; vmovlb.s16 q4, q2\n" \
  "vldrw.32 q5, [%[bias]], #16; vmla.s32 q5, q4, %[one]; " load " q4, [%[x]]; vadd.i16 q1, q1, q3\n" \
  "vldrb.8 q3, [%[weights]], #16; vmovlt.s16 q6, q1; vmullt.s8 q7, q4, q3; vmovlb.s16 q1, q1\n" \
  "add %[x], %[row1], %[step]; vmullb.s8 q4, q4, q3; vldrw.32 q3, [%[bias]], #16\n" \
  "vmla.s32 q0, q1, %[one]; vldrw.32 q1, [%[bias]], #16; vmla.s32 q3, q6, %[one]\n" \
  "vldrb.8 q6, [%[weights]], #16; vmovlt.s16 q2, q2; vmla.s32 q1, q2, %[one]\n" \
  load " q2, [%[row1]]; vmullb.s8 q2, q2, q6; vmla.s16 q4, q2, %[one]; " load " q2, [%[row1]], #16\n" \
  "vmullt.s8 q2, q2, q6; vmovlb.s16 q6, q4; vmla.s16 q7, q2, %[one]; " load " q2, [%[x]]\n" \
  "add %[x], %[x], %[step]; vmovlt.s16 q4, q4; vmla.s32 q3, q4, %[one]; vmovlt.s16 q4, q7\n" \
  "vmla.s32 q1, q4, %[one]; vmovlb.s16 q7, q7; vldrb.8 q4, [%[weights]], #16\n" \
  "vadd.i32 q5, q5, q7; vmullt.s8 q7, q2, q4; vadd.i32 q0, q0, q6\n" \
  "vldrb.8 q6, [%[weights]], #16; vmullb.s8 q2, q2, q4; " load " q4, [%[x]]; vmullb.s8 q4, q4, q6\n" \
  "vmla.s16 q2, q4, %[one]; " load " q4, [%[x]]; vmullt.s8 q4, q4, q6; vmovlt.s16 q6, q2\n" \
  "vmla.s16 q7, q4, %[one]; add %[x], %[row2], %[step]; vmovlb.s16 q2, q2\n" \
  "vldrb.8 q4, [%[weights]], #16; vmla.s32 q0, q2, %[one]; vmovlb.s16 q2, q7\n" \
  "vmla.s32 q5, q2, %[one]; vadd.i32 q3, q3, q6; " load " q2, [%[row2]], #16; vmullb.s8 q6, q2, q4\n" \
  "vmovlt.s16 q7, q7; vmullt.s8 q2, q2, q4; " load " q4, [%[x]]; vmla.s32 q1, q7, %[one]\n" \
  "vldrb.8 q7, [%[weights]], #16; vmullb.s8 q4, q4, q7; vadd.i16 q6, q6, q4; " load " q4, [%[x]]\n" \
  "add %[x], %[x], %[step]; vmullt.s8 q4, q4, q7; vmovlb.s16 q7, q6; vmla.s16 q2, q4, %[one]\n" \
  "vmovlt.s16 q6, q6; vmla.s32 q0, q7, %[one]; vmovlt.s16 q4, q2; " load " q7, [%[x]]\n" \
  "vadd.i32 q3, q3, q6; vldrb.8 q6, [%[weights]], #16; vadd.i32 q1, q1, q4\n" \
  "vmullb.s8 q4, q7, q6; vmovlb.s16 q2, q2; vmla.s32 q5, q2, %[one]; vmovlb.s16 q2, q4\n" \
  "vmullt.s8 q7, q7, q6; vldrw.32 q6, [%[multipliers]], #16; vmovlt.s16 q4, q4\n" \
  "vmla.s32 q3, q4, %[one]; vldrw.32 q4, [%[multipliers]], #16; vadd.i32 q0, q0, q2\n" \
  "vldrw.32 q2, [%[multipliers]], #16; vqrdmulh.s32 q3, q3, q2; vmovlt.s16 q2, q7\n" \
  "vqrdmulh.s32 q0, q0, q6; vmovlb.s16 q7, q7; vmla.s32 q5, q7, %[one]; vshr.s32 q6, q0, #31\n" \
  "vldrb.s32 q7, [%[shifts]], #4; vmla.s32 q0, q6, %[one]; vshr.s32 q6, q3, #31\n" \
  "vmla.s32 q3, q6, %[one]; vrshl.s32 q0, q0, q7; vldrb.s32 q6, [%[shifts]], #4\n" \
  "vqrdmulh.s32 q5, q5, q4; vldrb.s32 q4, [%[shifts]], #4; vqmovnb.s32 q0, q0\n" \
  "vrshl.s32 q3, q3, q4; vqmovnt.s32 q0, q3; vmla.s32 q1, q2, %[one]\n" \
  "vldrw.32 q2, [%[multipliers]], #16; vshr.s32 q3, q5, #31; vqrdmulh.s32 q1, q1, q2\n" \
  "vqadd.s16 q0, q0, %[offset]; vmla.s32 q5, q3, %[one]; vshr.s32 q2, q1, #31\n" \
  "vmla.s32 q1, q2, %[one]; vrshl.s32 q5, q5, q6; vldrb.s32 q2, [%[shifts]], #4\n" \
  "vqmovnb.s32 q5, q5; vrshl.s32 q1, q1, q2; vqmovnt.s32 q5, q1; vqmovnb.s16 q0, q0\n" \
  "vqadd.s16 q5, q5, %[offset]; vqmovnt.s16 q0, q5; " store " q0, [%[out]], #16\n"
// clang-format on
template <bool kWhole>
ET_INLINE void outputs_3x3(
    const int8_t*& row0,
    const int8_t*& row1,
    const int8_t*& row2,
    int32_t step,
    const int8_t*& weights,
    const int32_t*& bias,
    const int32_t*& multipliers,
    const int8_t*& shifts,
    int32_t offset,
    int8_t*& out,
    int32_t& x) {
#define NINE_ASM(text, ...)                                               \
  __asm__ volatile(text                                                   \
                   : [row0] "+r"(row0),                                   \
                     [row1] "+r"(row1),                                   \
                     [row2] "+r"(row2),                                   \
                     [weights] "+r"(weights),                             \
                     [bias] "+r"(bias),                                   \
                     [multipliers] "+r"(multipliers),                     \
                     [shifts] "+l"(shifts),                               \
                     [out] "+r"(out),                                     \
                     [x] "+r"(x)                                          \
                   : [step] "r"(step), [offset] "r"(offset), [one] "r"(1) \
                   : "memory", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7" __VA_ARGS__)
  if constexpr (kWhole) {
    NINE_ASM(NINE_PRODUCTS("vldrb.8", "vstrb.8"), );
  } else {
    NINE_ASM(
        SAVE_P0 "vctp.8 %[x]\n" NINE_PRODUCTS("vpst; vldrbt.8", "vpst; vstrbt.8") RESTORE_P0,
        WITH_GCC(, "p0"));
  }
#undef NINE_ASM
}
#undef NINE_PRODUCTS

/// Does the same as depthwise_row(), for a kernel of three by three and a layer that is not wide,
/// at `width` positions of `lanes` outputs each, from element `first` of the rows on. With -Os, as
/// packages may have it, GCC would find no registers for the assembly within its loops.
inline __attribute__((noinline WITH_GCC(, optimize("O2")))) void depthwise_row_3x3(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t first,
    int32_t width,
    int32_t lanes,
    int8_t* out) {
  const int32_t offset = parts.layer->output_offset;
  const int32_t step = parts.layer->channels;
  const int32_t rest = lanes % 16;
  // From behind the last sixteen of a position's outputs to the next position.
  const int32_t out_move = rest == 0 ? 0 : rest - 16;
  const int32_t move = (parts.layer->stride[1] - 1) * step + out_move;
  const int8_t* row0 = rows[0] + first;
  const int8_t* row1 = rows[1] + first;
  const int8_t* row2 = rows[2] + first;
  out += first;
  int32_t x = 0;
  for (; width > 0; --width) {
    const int32_t* bias = parts.bias;
    const int32_t* multipliers = parts.multipliers;
    const int8_t* shifts = parts.shifts;
    const int8_t* weights = parts.weights;
    for (int32_t groups = lanes / 16; groups > 0; --groups) {
      outputs_3x3<true>(row0, row1, row2, step, weights, bias, multipliers, shifts, offset, out, x);
    }
    if (rest != 0) {
      x = rest;
      outputs_3x3<false>(
          row0, row1, row2, step, weights, bias, multipliers, shifts, offset, out, x);
    }
    row0 += move;
    row1 += move;
    row2 += move;
    out += out_move;
  }
}

/// Returns whether a vector has the outputs of adjacent positions: their inputs are adjacent, too.
inline bool is_repeated(const PackedLayer& layer) {
  return layer.kernel[0] == 3 && layer.kernel[1] == 3 && layer.is_wide == 0 &&
      layer.stride[1] == 1 && layer.channels < 16 && (layer.channels & (layer.channels - 1)) == 0;
}

/// The tables of a layer that is_repeated(), with its channels for all sixteen.
struct RepeatedTables {
  int32_t bias[16];
  int32_t multipliers[16];
  int8_t shifts[16];
  int8_t weights[9 * 16];

  explicit RepeatedTables(const PackedParts& parts) {
    const PackedLayer& layer = *parts.layer;
    for (int32_t i = 0; i < 16; ++i) {
      const int32_t channel = i & (layer.channels - 1);
      const int32_t to = depthwise_place(layer, i);
      const int32_t from = depthwise_place(layer, channel);
      bias[to] = parts.bias[from];
      multipliers[to] = parts.multipliers[from];
      shifts[to] = parts.shifts[from];
      for (int32_t tap = 0; tap < 9 * 16; tap += 16) {
        weights[tap + i] = parts.weights[tap + channel];
      }
    }
  }

  PackedParts parts(const PackedParts& given) const {
    return {
        given.layer,
        bias,
        multipliers,
        shifts,
        weights,
        given.factor_step,
        given.inner,
        given.padded_inner};
  }
};

/// Computes all channels of a depthwise convolution at one position, for any kernel.
inline __attribute__((noinline)) void depthwise_pixel_any(
    const PackedParts& parts,
    const int8_t* const* rows,
    int32_t offset,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t channels = layer.channels;
  const int8_t* weights = parts.weights;
  for (int32_t c = 0; c < channels; c += 16) {
    const int32_t count = channels - c < 16 ? channels - c : 16;
    const mve_pred16_t active = vctp8q(static_cast<uint32_t>(count));
    SixteenSums sums(parts.bias + c);
    for (int32_t i = 0; i < layer.kernel[0]; ++i) {
      const int8_t* x = rows[i] + offset + c;
      for (int32_t j = layer.kernel[1]; j > 0; --j) {
        sums.multiply(vldrbq_z_s8(x, active), vldrbq_s8(weights));
        x += channels;
        weights += 16;
      }
    }
    if (layer.is_wide != 0) {
      sums.store_wide(parts, c, count, out + c);
    } else {
      sums.store(parts.multipliers + c, parts.shifts + c, layer.output_offset, out + c, active);
    }
  }
}

/// Computes all channels of a row of a depthwise convolution.
ET_INLINE void
depthwise_row(const PackedParts& parts, const int8_t* const* rows, int32_t width, int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  if (layer.kernel[0] == 3 && layer.kernel[1] == 3 && layer.is_wide == 0) {
    if (is_repeated(layer)) {
      const int32_t rest = width * layer.channels % 16;
      const int32_t whole = width * layer.channels - rest;
      depthwise_row_3x3(parts, rows, 0, whole / 16, 16, out);
      depthwise_row_3x3(parts, rows, whole, 1, rest, out);
    } else {
      depthwise_row_3x3(parts, rows, 0, width, layer.channels, out);
    }
    return;
  }
  for (int32_t x = 0; x < width; ++x) {
    depthwise_pixel_any(parts, rows, x * layer.stride[1] * layer.channels, out);
    out += layer.channels;
  }
}

} // namespace torch::executor::native::cortex_m
