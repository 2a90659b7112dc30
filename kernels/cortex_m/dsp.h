#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cortex_m/requantize.h"

#ifdef __ARM_FEATURE_DSP
#include <arm_acle.h>
#endif

namespace torch::executor::native::cortex_m {

/// Operations on pairs of 16-bit numbers in a word (Armv7-M Architecture Reference Manual, A4.4.3
/// and A4.4.4), and some that cores without the DSP extension, and this machine's tests, have in
/// C++.

/// Four bytes from anywhere.
inline uint32_t load_word(const void* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

#ifdef __ARM_FEATURE_SAT

/// A number saturated to one of `kBits` bits with a sign.
template <int32_t kBits>
inline int32_t saturated(int32_t value) {
  int32_t result;
  __asm__("ssat %0, %1, %2" : "=r"(result) : "i"(kBits), "r"(value));
  return result;
}

#endif

#ifdef __ARM_FEATURE_DSP

using int16x2_t = int32_t;

/// A number of 16 bits, twice.
inline int16x2_t twice(int32_t value) {
  return static_cast<int16x2_t>(static_cast<uint32_t>(value & 0xffff) * 0x10001u);
}

// Compilers schedule intrinsics better than inline assembly. GCC has these since version 10.
#if defined(__clang__) || __GNUC__ >= 10
#define OPERATION_ON_TWO(name, instruction)   \
  inline int32_t name(int32_t a, int32_t b) { \
    return __##instruction(a, b);             \
  }
#define OPERATION_ON_THREE(name, instruction)            \
  inline int32_t name(int32_t a, int32_t b, int32_t c) { \
    return __##instruction(a, b, c);                     \
  }
#else
#define OPERATION_ON_TWO(name, instruction)                              \
  inline int32_t name(int32_t a, int32_t b) {                            \
    int32_t result;                                                      \
    __asm__(#instruction " %0, %1, %2" : "=r"(result) : "r"(a), "r"(b)); \
    return result;                                                       \
  }
#define OPERATION_ON_THREE(name, instruction)                                        \
  inline int32_t name(int32_t a, int32_t b, int32_t c) {                             \
    int32_t result;                                                                  \
    __asm__(#instruction " %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c)); \
    return result;                                                                   \
  }
#endif

/// The sums of lower and of upper halves, each of which wraps.
OPERATION_ON_TWO(add_pairs, sadd16)

/// The differences of lower and of upper halves, each of which wraps.
OPERATION_ON_TWO(subtract_pairs, ssub16)

/// A saturated sum.
OPERATION_ON_TWO(saturated_sum, qadd)

/// Bytes 0 and 2 of the second word, as signed numbers that are added to the pair in the first.
OPERATION_ON_TWO(add_even_of, sxtab16)

/// The sum of the products of lower and of upper halves, and an addend, which wraps.
OPERATION_ON_THREE(dot2, smlad)

/// The product of the lower halves and an addend.
OPERATION_ON_THREE(multiply_low, smlabb)

/// The product of the upper halves and an addend.
OPERATION_ON_THREE(multiply_high, smlatt)

#undef OPERATION_ON_TWO
#undef OPERATION_ON_THREE

/// Returns bytes 0 and 2 as signed numbers.
inline int16x2_t even_bytes(uint32_t word) {
  int16x2_t result;
  __asm__("sxtb16 %0, %1" : "=r"(result) : "r"(word));
  return result;
}

/// Returns bytes 1 and 3 as signed numbers.
inline int16x2_t odd_bytes(uint32_t word) {
  int16x2_t result;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
  return result;
}

/// The upper half of a 64-bit product, rounded to nearest, halves up.
inline int32_t multiply_rounded(int32_t a, int32_t b) {
  int32_t result;
  __asm__("smmulr %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/// multiply_rounded() and an addend.
inline int32_t multiply_add_rounded(int32_t a, int32_t b, int32_t addend) {
  int32_t result;
  __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(addend));
  return result;
}

/// Bytes 0 and 2 of a word, or 1 and 3, as signed numbers that are added to a pair.
inline int16x2_t add_even_bytes(int16x2_t pair, uint32_t word) {
  return add_even_of(pair, static_cast<int32_t>(word));
}

inline int16x2_t add_odd_bytes(int16x2_t pair, uint32_t word) {
  int16x2_t result;
  __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(result) : "r"(pair), "r"(word));
  return result;
}

/// Half a number, rounded down, saturated to int8.
inline int32_t saturated_half(int32_t value) {
  int32_t result;
  __asm__("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(value));
  return result;
}

#else

inline int32_t multiply_rounded(int32_t a, int32_t b) {
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
  // No product has more than 32 bits here: it takes four of halves.
  const auto a_low = static_cast<int32_t>(a & 0xffff);
  const auto b_low = static_cast<int32_t>(b & 0xffff);
  const int32_t a_high = a >> 16;
  const int32_t b_high = b >> 16;
  const uint32_t low = static_cast<uint32_t>(a_low) * static_cast<uint32_t>(b_low);
  const int32_t first = a_high * b_low + static_cast<int32_t>(low >> 16);
  const int32_t second = a_low * b_high;
  const int32_t carry = ((first & 0xffff) + (second & 0xffff) + 0x8000) >> 16;
  return a_high * b_high + (first >> 16) + (second >> 16) + carry;
#else
  return static_cast<int32_t>((static_cast<int64_t>(a) * b + 0x80000000) >> 32);
#endif
}

inline int32_t multiply_add_rounded(int32_t a, int32_t b, int32_t addend) {
  return wrapping_add(multiply_rounded(a, b), addend);
}

inline int32_t saturated_half(int32_t value) {
  value >>= 1;
  return value < -128 ? -128 : value > 127 ? 127 : value;
}

#endif

/// The larger, or the smaller, ones of four pairs of bytes, as signed numbers.
template <bool kMax>
ET_INLINE uint32_t choose_bytes(uint32_t a, uint32_t b) {
#ifdef __ARM_FEATURE_DSP
  // `sel` reads flags of `ssub8`, so nothing may come between them.
  uint32_t result;
  if constexpr (kMax) {
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(result) : "r"(a), "r"(b) : "cc");
  } else {
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %2, %1" : "=&r"(result) : "r"(a), "r"(b) : "cc");
  }
  return result;
#else
  uint32_t result = 0;
  for (int32_t i = 0; i < 32; i += 8) {
    const uint32_t x = a >> i & 0xff;
    const uint32_t y = b >> i & 0xff;
    result |= ((static_cast<int8_t>(x) > static_cast<int8_t>(y)) == kMax ? x : y) << i;
  }
  return result;
#endif
}

/// Two numbers of 16 bits in a word.
constexpr uint32_t two_numbers(int32_t low, int32_t high) {
  return (static_cast<uint32_t>(low) & 0xffffu) | static_cast<uint32_t>(high) << 16;
}

/// Two numbers in a word, as dot_lanes() multiplies them: without the DSP extension `low + high *
/// 2^16`.
constexpr uint32_t two_halves(int32_t low, int32_t high) {
#ifdef __ARM_FEATURE_DSP
  return two_numbers(low, high);
#else
  return static_cast<uint32_t>(low) + (static_cast<uint32_t>(high) << 16);
#endif
}

} // namespace torch::executor::native::cortex_m
