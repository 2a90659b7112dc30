#include "kernels/cortex_m/prelu.h"

#include "kernels/cortex_m/dsp.h"
#include "kernels/cortex_m/requantize.h"

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

/// Neighbouring elements, each of the next channel with a step of 1, of the same one with 0.
template <int32_t kStep>
ET_INLINE void multiply(
    const Prelu& parameters,
    const int32_t* negative,
    const int8_t* in,
    int32_t count,
    int8_t* out) {
  // Storing an output changes nothing of a copy.
  const Prelu p = parameters;
#ifdef __ARM_FEATURE_MVE
  const int32x4_t positive = vdupq_n_s32(p.positive);
  const int32x4_t min = vdupq_n_s32(-128);
  const int32x4_t max = vdupq_n_s32(127);
  int32x4_t below = vdupq_n_s32(*negative);
  for (; count > 0; count -= 4) {
    const mve_pred16_t active = vctp32q(static_cast<uint32_t>(count));
    const int32x4_t x = vsubq_n_s32(vldrbq_z_s32(in, active), p.zero_point);
    if constexpr (kStep != 0) {
      below = vldrwq_z_s32(negative, active);
      negative += 4;
    }
    const int32x4_t factor = vpselq_s32(below, positive, vcmpltq_n_s32(x, 0));
    const int32x4_t sum = vshlq_r_s32(vmlasq_n_s32(x, factor, p.addend), -p.shift);
    vstrbq_p_s32(out, vmaxq_s32(vminq_s32(sum, max), min), active);
    in += 4;
    out += 4;
  }
#else
  const auto one = [&](int32_t x, int32_t below) {
    x -= p.zero_point;
    // In a corrupted program factors may be any.
    const int32_t product = wrapping_mul(x, x < 0 ? below : p.positive);
    const int32_t sum = wrapping_add(product, p.addend) >> p.shift;
#ifdef __ARM_FEATURE_SAT
    return static_cast<int8_t>(saturated<8>(sum));
#else
    return Range{-128, 127}.clamp(sum);
#endif
  };
  for (; count >= 4; count -= 4) {
    const int8_t first = one(in[0], negative[0]);
    const int8_t second = one(in[1], negative[kStep]);
    const int8_t third = one(in[2], negative[2 * kStep]);
    const int8_t fourth = one(in[3], negative[3 * kStep]);
    out[0] = first;
    out[1] = second;
    out[2] = third;
    out[3] = fourth;
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
  const int32_t channels = parameters.channels;
  const int32_t inner = parameters.inner;
  for (int32_t i = parameters.outer; i > 0; --i) {
    if (inner == 1) {
      multiply<1>(parameters, parameters.negative, in, channels, out);
      in += channels;
      out += channels;
      continue;
    }
    for (int32_t c = 0; c < channels; ++c) {
      multiply<0>(parameters, parameters.negative + c, in, inner, out);
      in += inner;
      out += inner;
    }
  }
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
