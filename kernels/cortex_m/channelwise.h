#pragma once

#include <cstdint>

#include "kernels/cortex_m/packed.h"

namespace torch::executor::native::cortex_m {

/// Returns whether each output of a depthwise layer is of one input: a factor and a term for every
/// channel, as of batch normalization. No layer that is arranged for MVE is one.
inline bool is_channelwise(const PackedLayer& layer) {
  return layer.arrangement != Arrangement::Mve && layer.is_wide == 0 &&
      layer.channels == layer.in_channels && layer.kernel[0] == 1 && layer.kernel[1] == 1 &&
      layer.stride[0] == 1 && layer.stride[1] == 1 && layer.padding[0] == 0 &&
      layer.padding[1] == 0;
}

/// Computes the outputs of `pixels` pixels of an is_channelwise() layer, saturated to int8, channel
/// by channel. An output may be at the address of its input, or before it.
void channelwise(const PackedParts& parts, int32_t pixels, const int8_t* in, int8_t* out);

} // namespace torch::executor::native::cortex_m
