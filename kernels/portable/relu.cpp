#include "kernels/portable/relu.h"

#include <cstdint>

namespace torch::executor::native {

namespace {

// The bits of a float, with any alignment rules.
typedef int32_t __attribute__((may_alias)) Bits;

// All negative numbers except NaN are at most -2^23 as integers: in the core registers this takes
// three instructions.
inline int32_t relu_bits(int32_t bits) {
  return bits <= -0x800000 ? 0 : bits;
}

} // namespace

void relu(const float* in, float* out, size_t count) {
  const Bits* from = reinterpret_cast<const Bits*>(in);
  Bits* to = reinterpret_cast<Bits*>(out);
#if defined(__thumb2__)
  // Loading and storing four at once; the compiler does not: 4 instructions per element, not 6.5.
  for (; count >= 4; count -= 4) {
    register int32_t x0 __asm__("r4");
    register int32_t x1 __asm__("r5");
    register int32_t x2 __asm__("r6");
    register int32_t x3 __asm__("r8");
    __asm__ volatile("ldmia %0!, {r4-r6, r8}"
                     : "+r"(from), "=r"(x0), "=r"(x1), "=r"(x2), "=r"(x3)
                     :
                     : "memory");
    x0 = relu_bits(x0);
    x1 = relu_bits(x1);
    x2 = relu_bits(x2);
    x3 = relu_bits(x3);
    __asm__ volatile("stmia %0!, {r4-r6, r8}"
                     : "+r"(to)
                     : "r"(x0), "r"(x1), "r"(x2), "r"(x3)
                     : "memory");
  }
#endif
  for (; count > 0; --count) {
    *to++ = relu_bits(*from++);
  }
}

} // namespace torch::executor::native
