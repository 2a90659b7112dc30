#pragma once

#include "kernels/cortex_m/requantize.h"
#include "kernels/util/window.h"

namespace torch::executor::native::cortex_m {

/// A batch of images [batch, channels, height, width] in any dim order: sizes, and distances in
/// elements between neighbours.
struct Image {
  int32_t batch;
  int32_t channels;
  int32_t height;
  int32_t width;
  int32_t batch_step;
  int32_t channel_step;
  int32_t row_step;
  int32_t column_step;
};

/// Describes a tensor of four dims, or of three, which is a batch of one. Fails the context
/// (InvalidArgument) and returns false for other numbers of dims.
bool describe_image(KernelRuntimeContext& ctx, const Tensor& tensor, Image& image);

/// Returns whether the elements have the order [batch, height, width, channels].
bool is_channels_last(const Image& image);

/// Returns whether a tensor of [batch, channels, ...], of any number of dims, has channels-last
/// order.
bool has_channels_last(const Tensor& tensor);

/// Fails the context (InvalidArgument) and returns false unless the list has two elements, both in
/// [low, 0x7fff].
bool check_pair(KernelRuntimeContext& ctx, const ArrayRef<int64_t>& values, int32_t low);

/// The positions of a window over a dim that are inside the input: kernel elements [begin, end),
/// and the input position of element 0, which may be negative.
struct Taps {
  int32_t begin;
  int32_t end;
  int32_t origin;

  Taps(const Window& window, int32_t out_position)
      : begin(0), end(window.kernel), origin(out_position * window.stride - window.padding) {
    if (origin < 0) {
      begin = (window.dilation - 1 - origin) / window.dilation;
    }
    const int32_t fitting = (window.in - origin + window.dilation - 1) / window.dilation;
    if (end > fitting) {
      end = fitting;
    }
  }
};

} // namespace torch::executor::native::cortex_m
