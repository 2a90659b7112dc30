#pragma once

#include <cmath>

#include <executorch/runtime/platform/compiler.h>

/**
 * The functions of this folder for double: the C library's, in software on a core
 * without double precision, and only in the images of programs that have doubles.
 */
namespace torch::executor::native::math {

/// Defines `name` for double as the C library's function of that name.
#define LIBRARY_FUNCTION(name)      \
  ET_INLINE double name(double x) { \
    return std::name(x);            \
  }
#define LIBRARY_FUNCTION_OF_TWO(name)         \
  ET_INLINE double name(double x, double y) { \
    return std::name(x, y);                   \
  }

LIBRARY_FUNCTION(acos)
LIBRARY_FUNCTION(acosh)
LIBRARY_FUNCTION(asin)
LIBRARY_FUNCTION(asinh)
LIBRARY_FUNCTION(atanh)
LIBRARY_FUNCTION(ceil)
LIBRARY_FUNCTION(cos)
LIBRARY_FUNCTION(cosh)
LIBRARY_FUNCTION(erf)
LIBRARY_FUNCTION(exp)
LIBRARY_FUNCTION(expm1)
LIBRARY_FUNCTION(floor)
LIBRARY_FUNCTION(log)
LIBRARY_FUNCTION(log10)
LIBRARY_FUNCTION(log1p)
LIBRARY_FUNCTION(log2)
LIBRARY_FUNCTION(sin)
LIBRARY_FUNCTION(sinh)
LIBRARY_FUNCTION(sqrt)
LIBRARY_FUNCTION(tan)
LIBRARY_FUNCTION(tanh)
LIBRARY_FUNCTION(trunc)
LIBRARY_FUNCTION_OF_TWO(atan2)
LIBRARY_FUNCTION_OF_TWO(fmod)
LIBRARY_FUNCTION_OF_TWO(pow)

#undef LIBRARY_FUNCTION
#undef LIBRARY_FUNCTION_OF_TWO

ET_INLINE double round_to_even(double x) {
  return std::rint(x);
}

ET_INLINE double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

ET_INLINE double clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/// |x| for either type.
ET_INLINE float magnitude(float x) {
  return __builtin_fabsf(x);
}
ET_INLINE double magnitude(double x) {
  return std::fabs(x);
}

} // namespace torch::executor::native::math
