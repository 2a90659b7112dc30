#pragma once

#include <stddef.h>
#include <stdint.h>

#include "firmware/board.h"

/// Only the source with main() includes this: it defines the function that models call.

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

/// The layers of the image's compiled models.
inline LayerTicks layer_ticks;

/// Executes a model by `run`, and gives each layer's ticks to `write`.
template <class Run>
auto profile_layers(void (*write)(size_t, uint32_t), const Run& run) {
  layer_ticks.write = write;
  const auto error = run();
  layer_ticks.write = nullptr;
  return error;
}

} // namespace torch_fusion

#ifdef TORCH_FUSION_LAYER_HOOK
void TORCH_FUSION_LAYER_HOOK(const void*, int layer, const char*) {
  torch_fusion::layer_ticks.begin(layer);
}
#endif
