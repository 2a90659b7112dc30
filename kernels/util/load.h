#pragma once

/**
 * Loads and stores of four neighbouring floats by one instruction, which the compiler does not
 * form by itself; on a Cortex-M4 the inner loop of linear() takes 1.5 instead of 2.9 instructions
 * per multiply-accumulate, and adding two arrays 2.3 instead of 5.8 per element.
 */
namespace torch::executor::native {

#if defined(__ARM_FP) && defined(__thumb__)

#define TORCH_FUSION_LOAD4(name, r0, r1, r2, r3)                 \
  inline __attribute__((always_inline)) void name(               \
      const float*& p, float& a, float& b, float& c, float& d) { \
    register float f0 __asm__(r0);                               \
    register float f1 __asm__(r1);                               \
    register float f2 __asm__(r2);                               \
    register float f3 __asm__(r3);                               \
    __asm__("vldmia %0!, {" r0 "-" r3 "}"                        \
            : "+r"(p), "=t"(f0), "=t"(f1), "=t"(f2), "=t"(f3)    \
            : "m"(*reinterpret_cast<const float(*)[4]>(p)));     \
    a = f0;                                                      \
    b = f1;                                                      \
    c = f2;                                                      \
    d = f3;                                                      \
  }

/// Loads p[0..3] and advances p by 4. They differ in the registers that they
/// use, so that the values of one stay where they are while the other loads.
TORCH_FUSION_LOAD4(load4_inputs, "s0", "s1", "s2", "s3")
TORCH_FUSION_LOAD4(load4_weights, "s4", "s5", "s6", "s7")
TORCH_FUSION_LOAD4(load4_biases, "s8", "s9", "s10", "s11")

#undef TORCH_FUSION_LOAD4

/// Stores to p[0..3] and advances p by 4.
inline __attribute__((always_inline)) void store4(float*& p, float a, float b, float c, float d) {
  register float f0 __asm__("s0") = a;
  register float f1 __asm__("s1") = b;
  register float f2 __asm__("s2") = c;
  register float f3 __asm__("s3") = d;
  __asm__("vstmia %0!, {s0-s3}"
          : "+r"(p), "=m"(*reinterpret_cast<float(*)[4]>(p))
          : "t"(f0), "t"(f1), "t"(f2), "t"(f3));
}

#else

inline void load4_inputs(const float*& p, float& a, float& b, float& c, float& d) {
  a = p[0];
  b = p[1];
  c = p[2];
  d = p[3];
  p += 4;
}

inline void load4_weights(const float*& p, float& a, float& b, float& c, float& d) {
  load4_inputs(p, a, b, c, d);
}

inline void load4_biases(const float*& p, float& a, float& b, float& c, float& d) {
  load4_inputs(p, a, b, c, d);
}

inline void store4(float*& p, float a, float b, float c, float d) {
  p[0] = a;
  p[1] = b;
  p[2] = c;
  p[3] = d;
  p += 4;
}

#endif

} // namespace torch::executor::native
