#pragma once

#include "kernels/cortex_m/packed_layers.h"

namespace torch::executor::native::cortex_m {

/// Returns whether packed_depthwise() computes a layer of its kind.
inline bool takes_depthwise(const PackedLayer& layer) {
  if (layer.kernel[0] > kMaxDepthwiseKernel || layer.channels % layer.in_channels != 0) {
    return false;
  }
  if (layer.arrangement == Arrangement::Dsp) {
    return layer.in_channels >= 4;
  }
  return layer.channels == layer.in_channels && layer.dilation[0] == 1 && layer.dilation[1] == 1 &&
      (layer.arrangement == Arrangement::Mve ? layer.channels % 4 == 0 : layer.channels >= 4);
}

/// Returns the bytes of scratch memory that a packed depthwise convolution on images needs.
int64_t depthwise_scratch(const PackedParts& parts, const Window& width);

/// Computes as many output channels per input channel as a layer for DSP has; otherwise one.
/// `needs` are PackedNeeds.
void packed_depthwise(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    uint32_t needs);

/// Does the same for a packed constant that the build has checked.
void packed_depthwise(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    uint32_t needs);

} // namespace torch::executor::native::cortex_m
