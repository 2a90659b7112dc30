#include "kernels/cortex_m/quantize.h"

#include <cstring>

#include "kernels/cortex_m/dsp.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

int32_t Quantization::apply_scaled(float scaled) const {
  // Adding 1.5 * 2^23 rounds to an integer, halves to even; larger numbers are clamped first, which
  // changes no result as zero points are small.
  constexpr float kRound = 12582912.0f;
  constexpr float kLarge = 1048576.0f;
  scaled = scaled < -kLarge ? -kLarge : scaled > kLarge ? kLarge : scaled;
  const float rounded = ((scaled + kRound) - kRound) + zero_point;
  if (!(rounded >= min)) {
    return rounded < min ? static_cast<int32_t>(min) : 0;
  }
  return static_cast<int32_t>(rounded > max ? max : rounded);
}

float inverse(double scale) {
  // scale = high + low, with 24 and 29 bits; the quotient by `high` is corrected for `low` and for
  // its own rounding.
  uint64_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  constexpr uint64_t kLowBits = (uint64_t{1} << 29) - 1;
  // The exponent's bias is another one; the sign is 0.
  const uint32_t high_bits = static_cast<uint32_t>(bits >> 29) - ((1023u - 127u) << 23);
  float high;
  std::memcpy(&high, &high_bits, sizeof(high));
  const float quotient = 1.0f / high;
  const float low_part = static_cast<float>(static_cast<uint32_t>(bits & kLowBits)) *
      (1.0f / 4503599627370496.0f); // low / 2^exponent
  // 2^exponent is `high` without its mantissa.
  const uint32_t power_bits = high_bits & 0xff800000u;
  float power;
  std::memcpy(&power, &power_bits, sizeof(power));
  const float low = low_part * power;
  const float rest = __builtin_fmaf(-quotient, low, __builtin_fmaf(-quotient, high, 1.0f));
  return __builtin_fmaf(rest, quotient, quotient);
}

namespace {

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)

/// Returns the offsets of the first four elements with a stride of `step`.
uint32x4_t four_places(int32_t step) {
  return vmulq_n_u32(vidupq_n_u32(0, 1), static_cast<uint32_t>(step));
}

#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_FP)

/// Quantizes elements, `step` bytes apart, four at a time to all numbers of int8, until less than
/// four are left or there may be a NaN among the next four.
ET_INLINE void quantize_fours(
    float inverse_scale,
    int32_t zero_point,
    const float*& in,
    int32_t step,
    int8_t*& out,
    size_t& count) {
  const float* next;
  uint32_t a, b, c, d;
  __asm__ volatile(
      "1:\n"
      "subs %[count], #4\n"
      "blo 2f\n"
      "mov %[next], %[in]\n"
      "vldr s0, [%[next]]\n"
      "add %[next], %[step]\n"
      "vldr s1, [%[next]]\n"
      "add %[next], %[step]\n"
      "vldr s2, [%[next]]\n"
      "add %[next], %[step]\n"
      "vldr s3, [%[next]]\n"
      "vmul.f32 s0, s0, %[inverse]\n"
      "vmul.f32 s1, s1, %[inverse]\n"
      "vmul.f32 s2, s2, %[inverse]\n"
      "vmul.f32 s3, s3, %[inverse]\n"
      "vadd.f32 s4, s0, s1\n"
      "vadd.f32 s5, s2, s3\n"
      "vadd.f32 s4, s4, s5\n"
      "vcmp.f32 s4, s4\n"
      "vmrs APSR_nzcv, fpscr\n"
      "bvs 2f\n"
      // Rounds halves to even, and saturates.
      "vcvtr.s32.f32 s0, s0\n"
      "vcvtr.s32.f32 s1, s1\n"
      "vcvtr.s32.f32 s2, s2\n"
      "vcvtr.s32.f32 s3, s3\n"
      "vmov %[a], %[b], s0, s1\n"
      "vmov %[c], %[d], s2, s3\n"
      "add %[in], %[in], %[step], lsl #2\n"
      "qadd %[a], %[a], %[zero_point]\n"
      "qadd %[b], %[b], %[zero_point]\n"
      "qadd %[c], %[c], %[zero_point]\n"
      "qadd %[d], %[d], %[zero_point]\n"
      "ssat %[a], #8, %[a]\n"
      "ssat %[b], #8, %[b]\n"
      "ssat %[c], #8, %[c]\n"
      "ssat %[d], #8, %[d]\n"
      "strb %[a], [%[out]], #1\n"
      "strb %[b], [%[out]], #1\n"
      "strb %[c], [%[out]], #1\n"
      "strb %[d], [%[out]], #1\n"
      "b 1b\n"
      "2:\n"
      "add %[count], #4\n"
      : [next] "=&r"(next),
        [in] "+&r"(in),
        [out] "+&r"(out),
        [count] "+&r"(count),
        [a] "=&r"(a),
        [b] "=&r"(b),
        [c] "=&r"(c),
        [d] "=&r"(d)
      : [inverse] "t"(inverse_scale), [zero_point] "r"(zero_point), [step] "r"(step)
      : "memory", "cc", "s0", "s1", "s2", "s3", "s4", "s5");
}

/// Does the same one at a time, until none is left or the next one is a NaN.
ET_INLINE void quantize_ones(
    float inverse_scale,
    int32_t zero_point,
    const float*& in,
    int32_t step,
    int8_t*& out,
    size_t& count) {
  uint32_t a;
  __asm__ volatile(
      "1:\n"
      "subs %[count], #1\n"
      "blo 2f\n"
      "vldr s0, [%[in]]\n"
      "vmul.f32 s0, s0, %[inverse]\n"
      "vcmp.f32 s0, s0\n"
      "vmrs APSR_nzcv, fpscr\n"
      "bvs 2f\n"
      "add %[in], %[step]\n"
      "vcvtr.s32.f32 s0, s0\n"
      "vmov %[a], s0\n"
      "qadd %[a], %[a], %[zero_point]\n"
      "ssat %[a], #8, %[a]\n"
      "strb %[a], [%[out]], #1\n"
      "b 1b\n"
      "2:\n"
      "add %[count], #1\n"
      : [in] "+&r"(in), [out] "+&r"(out), [count] "+&r"(count), [a] "=&r"(a)
      : [inverse] "t"(inverse_scale), [zero_point] "r"(zero_point), [step] "r"(step)
      : "memory", "cc", "s0");
}

#define QUANTIZE_FOUR(first, second, third, fourth)                                      \
  "vmov %[a], %[b], " first ", " second                                                  \
  "\n"                                                                                   \
  "vmov %[c], %[d], " third ", " fourth                                                  \
  "\n"                                                                                   \
  "qadd %[a], %[a], %[zero_point]\n"                                                     \
  "qadd %[b], %[b], %[zero_point]\n"                                                     \
  "qadd %[c], %[c], %[zero_point]\n"                                                     \
  "qadd %[d], %[d], %[zero_point]\n"                                                     \
  "ssat %[a], #8, %[a]\nssat %[b], #8, %[b]\nssat %[c], #8, %[c]\nssat %[d], #8, %[d]\n" \
  "strb %[a], [%[out]], #1\nstrb %[b], [%[out]], #1\n"                                   \
  "strb %[c], [%[out]], #1\nstrb %[d], [%[out]], #1\n"

/// Does the same for neighbours, eight at a time, until less are left or there is one among the
/// next eight that has no integer of 32 bits.
ET_INLINE void quantize_eights(
    float inverse_scale,
    int32_t zero_point,
    const float*& in,
    int8_t*& out,
    size_t& count) {
  uint32_t a, b, c, d;
  __asm__ volatile(
      // The flag of invalid operations stays set until it is cleared.
      "vmrs %[a], fpscr\n"
      "bic %[a], #1\n"
      "vmsr fpscr, %[a]\n"
      "1:\n"
      "subs %[count], #8\n"
      "blo 2f\n"
      "vldmia %[in], {s0-s7}\n"
      "vmul.f32 s0, s0, %[inverse]\nvmul.f32 s1, s1, %[inverse]\n"
      "vmul.f32 s2, s2, %[inverse]\nvmul.f32 s3, s3, %[inverse]\n"
      "vmul.f32 s4, s4, %[inverse]\nvmul.f32 s5, s5, %[inverse]\n"
      "vmul.f32 s6, s6, %[inverse]\nvmul.f32 s7, s7, %[inverse]\n"
      // Rounds halves to even.
      "vcvtr.s32.f32 s0, s0\nvcvtr.s32.f32 s1, s1\nvcvtr.s32.f32 s2, s2\nvcvtr.s32.f32 s3, s3\n"
      "vcvtr.s32.f32 s4, s4\nvcvtr.s32.f32 s5, s5\nvcvtr.s32.f32 s6, s6\nvcvtr.s32.f32 s7, s7\n"
      "vmrs %[a], fpscr\n"
      "lsls %[a], #31\n"
      "bmi 2f\n"
      "adds %[in], #32\n" //
      QUANTIZE_FOUR("s0", "s1", "s2", "s3") //
      QUANTIZE_FOUR("s4", "s5", "s6", "s7")
      "b 1b\n"
      "2:\n"
      "add %[count], #8\n"
      : [in] "+&r"(in),
        [out] "+&r"(out),
        [count] "+&r"(count),
        [a] "=&r"(a),
        [b] "=&r"(b),
        [c] "=&r"(c),
        [d] "=&r"(d)
      : [inverse] "t"(inverse_scale), [zero_point] "r"(zero_point)
      : "memory", "cc", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7");
}

/// Dequantizes neighbours, four at a time, until less than four are left. Differences from the zero
/// point have 16 bits.
ET_INLINE void
dequantize_fours(float scale, int32_t zero_point, const int8_t*& in, float*& out, size_t& count) {
  uint32_t a, b, c, d;
  __asm__ volatile(
      "1:\n"
      "subs %[count], #4\n"
      "blo 2f\n"
      "ldr %[a], [%[in]], #4\n"
      "sxtab16 %[c], %[offsets], %[a]\n"
      "sxtab16 %[d], %[offsets], %[a], ror #8\n"
      "sxth %[a], %[c]\n"
      "sxth %[b], %[d]\n"
      "asr %[c], #16\n"
      "asr %[d], #16\n"
      "vmov s0, s1, %[a], %[b]\n"
      "vmov s2, s3, %[c], %[d]\n"
      "vcvt.f32.s32 s0, s0\nvcvt.f32.s32 s1, s1\nvcvt.f32.s32 s2, s2\nvcvt.f32.s32 s3, s3\n"
      "vmul.f32 s0, s0, %[scale]\nvmul.f32 s1, s1, %[scale]\n"
      "vmul.f32 s2, s2, %[scale]\nvmul.f32 s3, s3, %[scale]\n"
      "vstmia %[out]!, {s0-s3}\n"
      "b 1b\n"
      "2:\n"
      "add %[count], #4\n"
      : [in] "+&r"(in),
        [out] "+&r"(out),
        [count] "+&r"(count),
        [a] "=&r"(a),
        [b] "=&r"(b),
        [c] "=&r"(c),
        [d] "=&r"(d)
      : [scale] "t"(scale), [offsets] "r"(two_numbers(-zero_point, -zero_point))
      : "memory", "cc", "s0", "s1", "s2", "s3");
}

#endif

} // namespace

void quantize_neighbours(
    float inverse_scale,
    int32_t zero_point,
    const float* in,
    int8_t* out,
    size_t count) {
  const Quantization q = {inverse_scale, static_cast<float>(zero_point), -128.0f, 127.0f};
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FP) && \
    !(defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2))
  for (;;) {
    quantize_eights(inverse_scale, zero_point, in, out, count);
    quantize_ones(inverse_scale, zero_point, in, sizeof(float), out, count);
    if (count == 0) {
      return;
    }
    // A NaN.
    *out++ = static_cast<int8_t>(q.apply(*in++));
    --count;
  }
#else
  quantize(q, in, 1, out, count);
#endif
}

template <class T>
void quantize(
    const Quantization& quantization,
    const float* in,
    int32_t step,
    T* out,
    size_t count) {
  // Storing an output changes nothing of a copy.
  const Quantization q = quantization;
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
  const auto zero_point = static_cast<int32_t>(q.zero_point);
  const int32x4_t min = vdupq_n_s32(static_cast<int32_t>(q.min));
  const int32x4_t max = vdupq_n_s32(static_cast<int32_t>(q.max));
  const uint32x4_t places = four_places(step);
  for (auto left = static_cast<int32_t>(count); left > 0; left -= 4) {
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(left));
    float32x4_t value = vldrwq_gather_shifted_offset_z_f32(in, places, active);
    value = vmulq_n_f32(value, q.inverse_scale);
    // Saturates, and makes a zero of NaN, which the zero point is not added to.
    int32x4_t result = vqaddq_n_s32(vcvtnq_s32_f32(value), zero_point);
    result = vmaxq_s32(vminq_s32(result, max), min);
    result = vdupq_m_n_s32(result, 0, vcmpneq_f32(value, value));
    if constexpr (sizeof(T) == 1) {
      vstrbq_p_s32(out, result, active);
    } else {
      vstrhq_p_s32(out, result, active);
    }
    in += 4 * step;
    out += 4;
  }
#else
  while (count > 0) {
    size_t next = count;
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FP)
    if constexpr (sizeof(T) == 1) {
      if (q.min == -128 && q.max == 127) {
        const auto zero_point = static_cast<int32_t>(q.zero_point);
        const int32_t bytes = step * static_cast<int32_t>(sizeof(float));
        if (step == 1) {
          quantize_neighbours(q.inverse_scale, zero_point, in, out, count);
          return;
        }
        quantize_fours(q.inverse_scale, zero_point, in, bytes, out, count);
        quantize_ones(q.inverse_scale, zero_point, in, bytes, out, count);
        // A NaN is the next one, if there is any.
        next = count == 0 ? 0 : 1;
      }
    }
#endif
    count -= next;
    for (; next > 0; --next) {
      *out++ = static_cast<T>(q.apply(*in));
      in += step;
    }
  }
#endif
}

template <class T>
void dequantize(
    const Quantization& quantization,
    float scale,
    const T* in,
    int32_t step,
    float* out,
    size_t count) {
  const auto zero_point = static_cast<int32_t>(quantization.zero_point);
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
  const uint32x4_t places = four_places(step);
  for (auto left = static_cast<int32_t>(count); left > 0; left -= 4) {
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(left));
    int32x4_t value;
    if constexpr (sizeof(T) == 1) {
      value = vldrbq_gather_offset_z_s32(in, places, active);
    } else {
      value = vldrhq_gather_shifted_offset_z_s32(in, places, active);
    }
    const float32x4_t difference = vcvtq_f32_s32(vsubq_n_s32(value, zero_point));
    vstrwq_p_f32(out, vmulq_n_f32(difference, scale), active);
    in += 4 * step;
    out += 4;
  }
#else
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FP)
  if constexpr (sizeof(T) == 1) {
    if (step == 1) {
      dequantize_fours(scale, zero_point, in, out, count);
    }
  }
#endif
  for (; count > 0; --count) {
    *out++ = static_cast<float>(*in - zero_point) * scale;
    in += step;
  }
#endif
}

template void quantize(const Quantization&, const float*, int32_t, int8_t*, size_t);
template void quantize(const Quantization&, const float*, int32_t, int16_t*, size_t);
template void dequantize(const Quantization&, float, const int8_t*, int32_t, float*, size_t);
template void dequantize(const Quantization&, float, const int16_t*, int32_t, float*, size_t);

} // namespace torch::executor::native::cortex_m
