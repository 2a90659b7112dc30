#pragma once

#include <cstdint>

#include <executorch/runtime/platform/compiler.h>

/**
 * Conversions of doubles, which is how programs hold numbers, without the soft
 * floating point library of cores that have single precision only: integer
 * operations on IEEE 754 binary64.
 */
namespace torch::executor::native {

/// The nearest float, the even one of two; infinite beyond the largest.
float float_of(double value);

/// The nearest float, the even one of two, without the library's conversion of 64-bit integers.
float float_of_int(int64_t value);

/// Rounds towards zero; returns 0 for numbers beyond int64_t, and for NaN.
int64_t int_of(double value);

/// The nearest double, the even one of two.
double double_of(int64_t value);

/// Returns whether a number is neither infinite nor NaN.
bool is_finite(double value);

/// A parameter of an operator in the type that it computes in.
template <class T>
T parameter_of(double value);
template <>
ET_INLINE float parameter_of<float>(double value) {
  return float_of(value);
}
template <>
ET_INLINE double parameter_of<double>(double value) {
  return value;
}

} // namespace torch::executor::native
