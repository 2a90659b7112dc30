#include "kernels/math/trigonometry.h"

#include "kernels/math/exp.h"
#include "kernels/math/polynomial.h"
#include "kernels/math/round.h"

namespace torch::executor::native::math {

namespace {

// pi / 2, and the float's rounding error.
constexpr float kHalfPi = 0x1.921fb6p+0f;
constexpr float kHalfPiLow = -0x1.777a5cp-25f;

// An angle from -pi/4 to pi/4, as a sum, and how many quarter turns it was taken back.
struct Reduced {
  float angle;
  float low;
  uint32_t quadrant;
};

// x modulo pi/2. 96 bits of 2/pi are multiplied by the 24 of x: the bits before give whole turns,
// the bits after no more than the angle's error (M. Payne and R. Hanek, Radian reduction for
// trigonometric functions, SIGNUM Newsletter 18, 1983).
Reduced reduce(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (magnitude <= 0.785398163f) {
    return {x, 0.0f, 0};
  }
  if (!(magnitude < __builtin_inff())) {
    return {__builtin_nanf(""), 0.0f, 0};
  }
  // 32 bits of zero, and 2/pi.
  static constexpr uint32_t kTwoByPi[] = {
      0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  const uint32_t bits = as_bits(magnitude);
  const uint32_t significand = (bits & 0x7fffff) | 0x800000;
  // The bit of 2/pi whose product with the significand's last bit is 2.
  const uint32_t first = (bits >> 23) - 120;
  const uint32_t* const words = kTwoByPi + first / 32;
  const auto word = [&](uint32_t i) {
    const uint64_t pair = static_cast<uint64_t>(words[i]) << 32 | words[i + 1];
    return static_cast<uint32_t>(pair >> (32 - first % 32));
  };
  const uint64_t low = static_cast<uint64_t>(significand) * word(2);
  const uint64_t middle = static_cast<uint64_t>(significand) * word(1) + (low >> 32);
  const uint32_t high = significand * word(0) + static_cast<uint32_t>(middle >> 32);
  // Quarter turns: two bits before the point. Its halves round to the nearest.
  uint64_t turns = static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(middle);
  uint32_t quadrant = static_cast<uint32_t>((turns + (uint64_t{1} << 61)) >> 62);
  turns -= static_cast<uint64_t>(quadrant) << 62;
  const bool is_negative = (turns >> 63) != 0;
  if (is_negative) {
    turns = ~turns;
  }
  const int zeros = __builtin_clzll(turns | 1);
  turns <<= zeros;
  float unit = as_float(static_cast<uint32_t>(127 - 22 - zeros) << 23);
  if (is_negative != (x < 0.0f)) {
    unit = -unit;
  }
  if (x < 0.0f) {
    quadrant = 0 - quadrant;
  }
  const float fraction = static_cast<float>(static_cast<uint32_t>(turns >> 40)) * unit;
  const float rest =
      static_cast<float>(static_cast<uint32_t>(turns >> 16) & 0xffffff) * unit * 0x1p-24f;
  const float angle = fraction * kHalfPi;
  const float error = __builtin_fmaf(fraction, kHalfPi, -angle);
  return {
      angle,
      __builtin_fmaf(rest, kHalfPi, __builtin_fmaf(fraction, kHalfPiLow, error)),
      quadrant & 3};
}

// A number as a float and its rounding error.
struct Sum {
  float value;
  float low;
};

Sum sum(float larger, float smaller) {
  const float value = larger + smaller;
  return {value, (larger - value) + smaller};
}

// (sin a - a) / a^3 and (cos a - 1 + a^2 / 2) / a^4 in a^2, on [-pi/4, pi/4].
Sum sin_reduced(const Reduced& x) {
  static constexpr float kCoefficients[] = {
      0x1.6dbe08p-19f, -0x1.a013a8p-13f, 0x1.11110ep-7f, -0x1.555556p-3f};
  const float square = x.angle * x.angle;
  return sum(x.angle, __builtin_fmaf(x.angle * square, polynomial(kCoefficients, square), x.low));
}

Sum cos_reduced(const Reduced& x) {
  static constexpr float kCoefficients[] = {
      -0x1.25244ep-22f, 0x1.a015c4p-16f, -0x1.6c16c0p-10f, 0x1.555556p-5f};
  const float square = x.angle * x.angle;
  const float half = 0.5f * square;
  const float first = 1.0f - half;
  // The rounding error of the halved square matters for the tangent.
  const float square_low = __builtin_fmaf(x.angle, x.angle, -square);
  float rest = __builtin_fmaf(-x.angle, x.low, (1.0f - first) - half) - 0.5f * square_low;
  rest = __builtin_fmaf(square * square, polynomial(kCoefficients, square), rest);
  return sum(first, rest);
}

float quotient(const Sum& a, const Sum& b) {
  const float value = a.value / b.value;
  const float rest =
      __builtin_fmaf(-value, b.value, a.value) + __builtin_fmaf(-value, b.low, a.low);
  return value + rest / b.value;
}

// The sine after some quarter turns.
float sin_turned(const Reduced& x, uint32_t quadrant) {
  const float value = ((quadrant & 1) != 0 ? cos_reduced(x) : sin_reduced(x)).value;
  return (quadrant & 2) != 0 ? -value : value;
}

// asin(x) - x for |x| <= 0.5: (asin x - x) / x^3 in x^2.
float asin_rest(float x) {
  static constexpr float kCoefficients[] = {
      0x1.13fed4p-5f,
      0x1.18f91ep-6f,
      0x1.fd8da2p-6f,
      0x1.6d5bbap-5f,
      0x1.333430p-4f,
      0x1.555554p-3f};
  const float square = x * x;
  return polynomial(kCoefficients, square) * square * x;
}

// acos(x) for 0.5 <= x <= 1, from the sine of its half.
Sum acos_large(float x) {
  const float square = 0.5f * (1.0f - x);
  if (square == 0.0f) {
    return {0.0f, 0.0f};
  }
  const float root = sqrt(square);
  const float root_low = __builtin_fmaf(-root, root, square) / (root + root);
  return {2.0f * root, 2.0f * (asin_rest(root) + root_low)};
}

} // namespace

float sin(float x) {
  const Reduced reduced = reduce(x);
  return sin_turned(reduced, reduced.quadrant);
}

float cos(float x) {
  const Reduced reduced = reduce(x);
  return sin_turned(reduced, reduced.quadrant + 1);
}

float tan(float x) {
  const Reduced reduced = reduce(x);
  const Sum sine = sin_reduced(reduced);
  const Sum cosine = cos_reduced(reduced);
  return (reduced.quadrant & 1) != 0 ? -quotient(cosine, sine) : quotient(sine, cosine);
}

float asin(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (magnitude <= 0.5f) {
    return x + asin_rest(x);
  }
  const Sum complement = acos_large(magnitude);
  return __builtin_copysignf((kHalfPi - complement.value) - (complement.low - kHalfPiLow), x);
}

float acos(float x) {
  if (__builtin_fabsf(x) <= 0.5f) {
    return kHalfPi - (x + (asin_rest(x) - kHalfPiLow));
  }
  const Sum angle = acos_large(__builtin_fabsf(x));
  if (x > 0.0f) {
    return angle.value + angle.low;
  }
  return (2.0f * kHalfPi - angle.value) - (angle.low - 2.0f * kHalfPiLow);
}

float atan2(float y, float x) {
  if (x != x || y != y) {
    return x + y;
  }
  const float width = __builtin_fabsf(x);
  const float height = __builtin_fabsf(y);
  const bool is_steep = height > width;
  const float shorter = is_steep ? width : height;
  const float longer = is_steep ? height : width;
  // Zero by zero counts as 0, infinity by infinity as 1.
  const float ratio = longer == 0.0f ? 0.0f : shorter == __builtin_inff() ? 1.0f : shorter / longer;
  // (atan r - r) / r^3 in r^2.
  static constexpr float kCoefficients[] = {
      0x1.86406cp-10f,
      -0x1.2ba6b6p-7f,
      0x1.aefb2cp-6f,
      -0x1.9115a4p-5f,
      0x1.2006f8p-4f,
      -0x1.6dd8fep-4f,
      0x1.c62cdap-4f,
      -0x1.248952p-3f,
      0x1.999956p-3f,
      -0x1.555556p-2f};
  const float square = ratio * ratio;
  float angle = __builtin_fmaf(polynomial(kCoefficients, square) * square, ratio, ratio);
  if (is_steep) {
    angle = kHalfPi - (angle - kHalfPiLow);
  }
  if (__builtin_signbit(x)) {
    angle = 2.0f * kHalfPi - (angle - 2.0f * kHalfPiLow);
  }
  return __builtin_copysignf(angle, y);
}

} // namespace torch::executor::native::math
