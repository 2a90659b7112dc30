#pragma once

#include "kernels/cortex_m/packed_layers.h"

namespace torch::executor::native::cortex_m {

/*
 * 3x3 convolutions without stride and dilation by Winograd's minimal filtering, in integers and
 * exactly: F(2x2, 3x3) of A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks"
 * (2015), section 4. Two by two outputs take sixteen products per input channel instead of
 * thirty-six. The transform of weights, which has halves there, is doubled in both dimensions, so
 * that sums are four times the convolution's.
 *
 * A layer is packed like a convolution, with Arrangement::Dsp, and its input channels are a
 * multiple of four. PackedLayer::group_size is the number of tiles of two by two outputs that are
 * computed at a time, a multiple of four. No sum reaches 2^29, and each window has a pixel of the
 * image.
 *
 * The memory planner relies on this order: tiles go from left to right and from top to bottom, and
 * the windows of all tiles that are computed at a time have been copied before their outputs are
 * written.
 */

/// Returns whether packed_winograd() computes a layer of its kind.
inline bool takes_winograd(const PackedLayer& layer) {
  const auto are = [](const uint16_t(&values)[2], uint16_t value) {
    return values[0] == value && values[1] == value;
  };
  return layer.arrangement == Arrangement::Dsp && layer.is_wide == 0 &&
      layer.in_channels % 4 == 0 && layer.group_size > 0 && layer.group_size % 4 == 0 &&
      are(layer.kernel, 3) && are(layer.stride, 1) && are(layer.dilation, 1) &&
      layer.padding[0] < 3 && layer.padding[1] < 3;
}

/// Returns the bytes of scratch memory that a packed layer needs;
/// tools/pipeline/export/backends/cortex_m/pack.py has the same function.
int64_t winograd_scratch(const PackedParts& parts, const Window& width);

PackedImagesFunction<const PackedParts&> packed_winograd;
PackedImagesFunction<const int8_t*> packed_winograd;

} // namespace torch::executor::native::cortex_m
