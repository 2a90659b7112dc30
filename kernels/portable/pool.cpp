#include "kernels/portable/pool.h"

#include <cstring>

#include "kernels/util/load.h"

namespace torch::executor::native {

namespace {

// Floats as unsigned integers: those without sign are in the order of their values, up to NaN;
// above them come those with sign, in the inverse order, up to NaN again.
constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kMinusInfinity = 0xff800000u;

inline uint32_t larger(uint32_t a, uint32_t b) {
  return a < b ? b : a;
}

inline uint32_t bits(const float* value) {
  uint32_t word;
  std::memcpy(&word, value, sizeof(word));
  return word;
}

/**
 * Writes the maxima of two windows, as unsigned integers, and moves on to the next two.
 *
 * @returns true if one of them has a sign.
 */
#if defined(__thumb2__) && defined(__GCC_ASM_FLAG_OUTPUTS__)

// Written out, as the compiler shuffles the registers that instructions for four words need.
#define LARGER(a, b) \
  "cmp " a ", " b    \
  "\n\t"             \
  "bhs 1f\n\t"       \
  "mov " a ", " b    \
  "\n"               \
  "1:\n\t"

// The registers are those that a call may change, as far as they go: pointers stay in the others.
inline bool next_two_maxima(const float*& upper, const float*& lower, float*& out) {
  bool has_sign;
  // clang-format off
  __asm__ volatile(
      "ldmia %0!, {r0-r3}\n\t"
      "ldmia %1!, {r8, r9, r12, lr}\n\t"
      LARGER("r0", "r1")
      LARGER("r2", "r3")
      LARGER("r0", "r8")
      LARGER("r2", "r12")
      LARGER("r0", "r9")
      LARGER("r2", "lr")
      "strd r0, r2, [%2], #8\n\t"
      "orrs r0, r2"
      : "+r"(upper), "+r"(lower), "+r"(out), "=@ccmi"(has_sign)
      :
      : "r0", "r1", "r2", "r3", "r8", "r9", "r12", "lr", "memory");
  // clang-format on
  return has_sign;
}

#undef LARGER

#else

inline bool next_two_maxima(const float*& upper, const float*& lower, float*& out) {
  uint32_t signs = 0;
  for (int32_t i = 0; i < 2; ++i) {
    const uint32_t all =
        larger(larger(bits(upper), bits(upper + 1)), larger(bits(lower), bits(lower + 1)));
    std::memcpy(out++, &all, sizeof(all));
    signs |= all;
    upper += 2;
    lower += 2;
  }
  return (signs & kSign) != 0;
}

#endif

/// The maximum of four floats of any sign.
[[gnu::noinline]] void maximum_of_4(const float* upper, const float* lower, float* out) {
  const uint32_t words[] = {bits(upper), bits(upper + 1), bits(lower), bits(lower + 1)};
  uint32_t largest = words[0];
  uint32_t smallest = words[0];
  // Positive numbers become larger than negative ones.
  uint32_t positive = words[0] ^ kSign;
  for (const uint32_t word : words) {
    largest = larger(largest, word);
    smallest = word < smallest ? word : smallest;
    positive = larger(positive, word ^ kSign);
  }
  uint32_t maximum = positive ^ kSign;
  if (largest > kMinusInfinity) {
    maximum = largest;
  } else if (smallest >= kSign) {
    maximum = smallest;
  }
  std::memcpy(out, &maximum, sizeof(maximum));
}

} // namespace

void max_pool_2x2(
    const float* in,
    float* out,
    int32_t planes,
    const Window& height,
    const Window& width) {
  const int32_t line = width.in;
  const int32_t pairs = width.out / 2 * 2;
  const bool is_odd = width.out % 2 != 0;
  const int32_t lines = height.out;
  const int32_t plane = height.in * line;
  for (; planes > 0; --planes, in += plane) {
    const float* from = in;
    for (int32_t y = lines; y > 0; --y, from += 2 * line) {
      const float* upper = from;
      const float* lower = from + line;
      float* const end = out + pairs;
      while (out != end) {
        if (__builtin_expect(next_two_maxima(upper, lower, out), false)) {
          maximum_of_4(upper - 4, lower - 4, out - 2);
          maximum_of_4(upper - 2, lower - 2, out - 1);
        }
      }
      if (is_odd) {
        maximum_of_4(upper, lower, out++);
      }
    }
  }
}

void avg_pool_2x2(
    const float* in,
    int32_t in_step,
    float* out,
    int32_t out_step,
    const Window& height,
    const Window& width) {
  const int32_t line = width.in * in_step;
  for (int32_t y = height.out; y > 0; --y, in += 2 * line) {
    const float* upper = in;
    const float* lower = in + line;
    for (int32_t x = width.out; x > 0; --x) {
      *out = (upper[0] + upper[in_step] + lower[0] + lower[in_step]) * 0.25f;
      upper += 2 * in_step;
      lower += 2 * in_step;
      out += out_step;
    }
  }
}

void avg_pool_contiguous(
    const float* in,
    float* out,
    int32_t planes,
    const Window& height,
    const Window& width,
    bool count_padding,
    int32_t divisor) {
  const bool is_fast = is_2x2(height, width) && (divisor == 0 || divisor == 4);
  for (; planes > 0; --planes, in += height.in * width.in) {
    for (int32_t y = 0; y < height.out; ++y) {
      const WindowPart rows = window_part(height, y);
      int32_t x = 0;
      if (is_fast) {
        const float* upper = in + rows.begin * width.in;
        const float* lower = upper + width.in;
        x = width.out / 2 * 2;
        for (float* const end = out + x; out != end; out += 2) {
          float a, b, c, d, e, f, g, h;
          load4_inputs(upper, a, b, c, d);
          load4_weights(lower, e, f, g, h);
          out[0] = (a + b + e + f) * 0.25f;
          out[1] = (c + d + g + h) * 0.25f;
        }
      }
      for (; x < width.out; ++x) {
        const WindowPart columns = window_part(width, x);
        int32_t line = columns.end - columns.begin;
        int32_t lines = rows.end - rows.begin;
        if (line == width.in) {
          line *= lines;
          lines = 1;
        }
        const float* start = in + rows.begin * width.in + columns.begin;
        float sum = 0.0f;
        for (; lines > 0; --lines, start += width.in) {
          const float* value = start;
          int32_t rest = line;
          for (; rest >= 4; rest -= 4) {
            float a, b, c, d;
            load4_inputs(value, a, b, c, d);
            sum += a;
            sum += b;
            sum += c;
            sum += d;
          }
          for (; rest > 0; --rest) {
            sum += *value++;
          }
        }
        *out++ =
            sum / static_cast<float>(window_count(height, width, y, x, count_padding, divisor));
      }
    }
  }
}

} // namespace torch::executor::native
