#pragma once

#include <stddef.h>
#include <stdint.h>

#include "firmware/board.h"

namespace torch_fusion {

/// Measures each layer of compiled models: the layer that runs, since when, and where its ticks go.
struct LayerTicks {
  void (*write)(size_t layer, uint32_t ticks);
  size_t layer;
  uint32_t start;

  /// Models call this before each layer and after the last one (TORCH_FUSION_LAYER_HOOK).
  void begin(int next) {
    if (write == nullptr) {
      return;
    }
    if (next > 0) {
      write(layer, board_ticks_since(start));
    }
    layer = static_cast<size_t>(next);
    start = board_ticks();
  }
};

} // namespace torch_fusion
