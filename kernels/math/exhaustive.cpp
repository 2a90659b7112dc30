// Compares the functions of one argument with the C library's in double precision, for every float.
//
//   bazel run -c opt //kernels/math:exhaustive -- [FUNCTION [STRIDE]]
//
// FUNCTION is a name of the table below, or all; STRIDE leaves out all floats but every STRIDE-th
// (default 1: all 2^32, about three minutes a function). Writes the largest error in units of the
// last place with its argument; the exit status is 1 if one is beyond its limit.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/math/erf.h"
#include "kernels/math/exp.h"
#include "kernels/math/hyperbolic.h"
#include "kernels/math/log.h"
#include "kernels/math/round.h"
#include "kernels/math/trigonometry.h"

namespace {

namespace math = torch::executor::native::math;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

struct Function {
  const char* name;
  float (*function)(float);
  double (*exact)(double);
  double limit;
  // Smaller results may be 0.
  double smallest;
};

constexpr Function kFunctions[] = {
    {"acos", math::acos, std::acos, 2, 0},
    {"acosh", math::acosh, std::acosh, 2, 0},
    {"asin", math::asin, std::asin, 2, 0},
    {"asinh", math::asinh, std::asinh, 2, 0},
    {"atanh", math::atanh, std::atanh, 2, 0},
    {"cos", math::cos, std::cos, 2, 0},
    {"cosh", math::cosh, std::cosh, 2, 0},
    {"erf", math::erf, std::erf, 2, 0},
    {"exp", math::exp, std::exp, 2, 0},
    {"expm1", math::expm1, std::expm1, 2, 0},
    {"log", math::log, std::log, 2, 0},
    {"log10", math::log10, std::log10, 2, 0},
    {"log1p", math::log1p, std::log1p, 2, 0},
    {"log2", math::log2, std::log2, 2, 0},
    {"sigmoid", math::sigmoid, sigmoid, 2, 0x1.01p-126},
    {"sin", math::sin, std::sin, 2, 0},
    {"sinh", math::sinh, std::sinh, 2, 0},
    {"sqrt", [](float x) { return math::sqrt(x); }, std::sqrt, 0.5, 0},
    {"tan", math::tan, std::tan, 2, 0},
    {"tanh", math::tanh, std::tanh, 2, 0},
};

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Returns the error in units of the last place of a float near the exact result; infinite for a
// wrong NaN or infinity.
double error_of(float result, double exact) {
  if (std::isnan(exact) || std::isnan(result)) {
    return std::isnan(exact) && std::isnan(result) ? 0 : kInfinite;
  }
  int exponent;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
  constexpr double kOverflow = 0x1p128;
  if (std::isinf(result)) {
    // Numbers that round to 2^128 overflow.
    if (std::signbit(result) != std::signbit(exact)) {
      return kInfinite;
    }
    return std::fmax((kOverflow - std::fabs(exact)) / 0x1p104, 0.0);
  }
  return std::isinf(exact) ? kInfinite : std::fabs(static_cast<double>(result) - exact) / unit;
}

bool check(const Function& function, uint32_t stride) {
  double worst = 0;
  float argument = 0;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += stride) {
    const uint32_t pattern = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &pattern, sizeof(x));
    const double exact = function.exact(static_cast<double>(x));
    if (std::fabs(exact) < function.smallest) {
      continue;
    }
    const double error = error_of(function.function(x), exact);
    if (error > worst) {
      worst = error;
      argument = x;
    }
  }
  std::printf("%-8s %.3f ulp at %a\n", function.name, worst, static_cast<double>(argument));
  std::fflush(stdout);
  return worst <= function.limit;
}

} // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "all";
  const uint32_t stride = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 1;
  bool is_known = false;
  bool is_accurate = true;
  for (const Function& function : kFunctions) {
    if (stride > 0 && (wanted == "all" || wanted == function.name)) {
      is_known = true;
      is_accurate = check(function, stride) && is_accurate;
    }
  }
  if (!is_known) {
    std::fprintf(stderr, "usage: exhaustive [FUNCTION [STRIDE]]; FUNCTION is all or one of");
    for (const Function& function : kFunctions) {
      std::fprintf(stderr, " %s", function.name);
    }
    std::fprintf(stderr, "\n");
    return 2;
  }
  return is_accurate ? 0 : 1;
}
