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
PackedImagesNeedsFunction<const PackedParts&> packed_depthwise;
PackedImagesNeedsFunction<const int8_t*> packed_depthwise;

} // namespace torch::executor::native::cortex_m
