#include "kernels/cortex_m/channelwise.h"

#include "kernels/cortex_m/packed_scale.h"

namespace torch::executor::native::cortex_m {

namespace {

/// One channel at all pixels. A function of its own, in which all of a channel's numbers are in
/// registers.
template <class AnyScale>
ET_NOINLINE void channel_to_outputs(
    int32_t weight,
    int32_t bias,
    AnyScale scale,
    int32_t pixels,
    int32_t step,
    const int8_t* in,
    int8_t* out) {
  for (; pixels > 0; --pixels) {
    *out = scale.apply(*in * weight + bias);
    in += step;
    out += step;
  }
}

} // namespace

void channelwise(const PackedParts& parts, int32_t pixels, const int8_t* in, int8_t* out) {
  const int32_t channels = parts.layer->channels;
  const int32_t offset = parts.layer->output_offset;
  const int32_t grouped = channels & ~3;
  for (int32_t c = 0; c < channels; ++c) {
    // Weights are those of groups of four; the last four channels are one, too.
    const int32_t weight = parts.weights[c < grouped ? c : c + 4 - (channels & 3)];
    const Factor factor = {parts.multipliers[c], -1 - parts.shifts[c]};
    if (FoldedScale::takes(factor)) {
      const FoldedScale scale(factor, offset);
      channel_to_outputs(2 * weight, 2 * parts.bias[c], scale, pixels, channels, in++, out++);
    } else {
      const Scale scale = {factor.multiplier, parts.shifts[c], addend_of(*parts.layer)};
      channel_to_outputs(weight, parts.bias[c], scale, pixels, channels, in++, out++);
    }
  }
}

} // namespace torch::executor::native::cortex_m
