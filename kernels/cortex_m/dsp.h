#pragma once

#include <cstdint>
#include <cstring>

#ifdef __ARM_FEATURE_DSP
#include <arm_acle.h>
#endif

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/// Operations on pairs of 16-bit numbers in a word (Arm C Language Extensions, "32-bit SIMD"), and
/// in C++ what they compute, for cores without the DSP extension and for this machine's tests.

/// Four bytes from anywhere.
inline uint32_t load_word(const void* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

#ifdef __ARM_FEATURE_DSP

/// Bytes 0 and 2, as signed numbers.
inline int16x2_t even_bytes(uint32_t word) {
  return __sxtb16(word);
}

/// Bytes 1 and 3, as signed numbers.
inline int16x2_t odd_bytes(uint32_t word) {
  int16x2_t result;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
  return result;
}

inline int32_t dot2(int16x2_t a, int16x2_t b, int32_t sum) {
  return __smlad(a, b, sum);
}

inline int32_t multiply_low(int16x2_t a, int16x2_t b, int32_t sum) {
  return __smlabb(a, b, sum);
}

inline int32_t multiply_high(int16x2_t a, int16x2_t b, int32_t sum) {
  return __smlatt(a, b, sum);
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
  return __sxtab16(pair, word);
}

inline int16x2_t add_odd_bytes(int16x2_t pair, uint32_t word) {
  int16x2_t result;
  __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(result) : "r"(pair), "r"(word));
  return result;
}

/// Half a number, rounded down, saturated to int8.
inline int32_t saturated_half(int32_t value) {
  int32_t result;
  __asm__("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(value) : "cc");
  return result;
}

#else

using int16x2_t = int32_t;

inline int16x2_t pair(int32_t low, int32_t high) {
  return static_cast<int32_t>(
      (static_cast<uint32_t>(high) << 16) | (static_cast<uint32_t>(low) & 0xffffu));
}

inline int32_t low_of(int16x2_t value) {
  return static_cast<int16_t>(value & 0xffff);
}

inline int32_t high_of(int16x2_t value) {
  return value >> 16;
}

inline int16x2_t even_bytes(uint32_t word) {
  return pair(static_cast<int8_t>(word & 0xff), static_cast<int8_t>((word >> 16) & 0xff));
}

inline int16x2_t odd_bytes(uint32_t word) {
  return even_bytes(word >> 8);
}

inline int32_t add_wrapping(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

inline int32_t multiply_low(int16x2_t a, int16x2_t b, int32_t sum) {
  return add_wrapping(sum, low_of(a) * low_of(b));
}

inline int32_t multiply_high(int16x2_t a, int16x2_t b, int32_t sum) {
  return add_wrapping(sum, high_of(a) * high_of(b));
}

inline int32_t dot2(int16x2_t a, int16x2_t b, int32_t sum) {
  return multiply_high(a, b, multiply_low(a, b, sum));
}

inline int32_t multiply_rounded(int32_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<int64_t>(a) * b + 0x80000000) >> 32);
}

inline int32_t multiply_add_rounded(int32_t a, int32_t b, int32_t addend) {
  return add_wrapping(multiply_rounded(a, b), addend);
}

inline int32_t saturated_half(int32_t value) {
  value >>= 1;
  return value < -128 ? -128 : value > 127 ? 127 : value;
}

#endif

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
