#include "kernels/cortex_m/prelu.h"

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/requantize.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch::executor::native::cortex_m {

namespace {

/// Neighbouring elements, each of the next channel with a step of 1, of the same one with 0.
template <int32_t kStep>
ET_INLINE void
multiply(const Prelu& p, const int32_t* negative, const int8_t* in, int32_t count, int8_t* out) {
#ifdef __ARM_FEATURE_MVE
  const int32x4_t zero = vdupq_n_s32(0);
  const int32x4_t min = vdupq_n_s32(-128);
  const int32x4_t max = vdupq_n_s32(127);
  // Avoids a comparison, for which compilers move the predicate to a register and back.
  const auto four = [&](int32x4_t x, int32x4_t below) {
    x = vsubq_n_s32(x, p.zero_point);
    int32x4_t sum = vaddq_n_s32(vmulq_s32(vminq_s32(x, zero), below), p.addend);
    sum = vmlaq_n_s32(sum, vmaxq_s32(x, zero), p.positive);
    return vmaxq_s32(vminq_s32(vshlq_r_s32(sum, -p.shift), max), min);
  };
  int32x4_t below = vdupq_n_s32(*negative);
  for (; count >= 4; count -= 4) {
    if constexpr (kStep != 0) {
      below = vldrwq_s32(negative);
      negative += 4;
    }
    vstrbq_s32(out, four(vldrbq_s32(in), below));
    in += 4;
    out += 4;
  }
  if (count > 0) {
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(count));
    if constexpr (kStep != 0) {
      below = vldrwq_z_s32(negative, active);
    }
    vstrbq_p_s32(out, four(vldrbq_z_s32(in, active), below), active);
  }
#else
  const auto one = [&](int32_t x, int32_t below) {
    x -= p.zero_point;
    // In a corrupted program factors may have any value.
    const int32_t product = wrapping_mul(x, x < 0 ? below : p.positive);
    const int32_t sum = wrapping_add(product, p.addend) >> p.shift;
#ifdef __ARM_FEATURE_SAT
    return static_cast<int8_t>(saturated<8>(sum));
#else
    return Range{-128, 127}.clamp(sum);
#endif
  };
  for (; count >= 4; count -= 4) {
    out[0] = one(in[0], negative[0]);
    out[1] = one(in[1], negative[kStep]);
    out[2] = one(in[2], negative[2 * kStep]);
    out[3] = one(in[3], negative[3 * kStep]);
    in += 4;
    out += 4;
    negative += 4 * kStep;
  }
  for (; count > 0; --count) {
    *out++ = one(*in++, *negative);
    negative += kStep;
  }
#endif
}

} // namespace

void prelu(const Prelu& parameters, const int8_t* in, int8_t* out) {
  // Storing an output changes nothing of a copy.
  const Prelu p = parameters;
  for (int32_t i = p.inner == 1 ? p.outer : 0; i > 0; --i) {
    multiply<1>(p, p.negative, in, p.channels, out);
    in += p.channels;
    out += p.channels;
  }
  for (int32_t i = p.inner == 1 ? 0 : p.outer; i > 0; --i) {
    for (int32_t c = 0; c < p.channels; ++c) {
      multiply<0>(p, p.negative + c, in, p.inner, out);
      in += p.inner;
      out += p.inner;
    }
  }
}

} // namespace torch::executor::native::cortex_m
