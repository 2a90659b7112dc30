#pragma once

#include "kernels/cortex_m/image.h"

namespace torch::executor::native::cortex_m {

/// The parameters of convolutions, beside their tensors. Weights are int8.
struct ConvolutionParameters {
  Window height;
  Window width;
  /// Added to every input: the negated zero point.
  int32_t input_offset;
  /// Added to every output: the zero point.
  int32_t output_offset;
  Range range;
  /// There is one per output channel each; `bias` may be null.
  const int32_t* bias;
  const int32_t* multipliers;
  const int32_t* shifts;
};

/// Weight [out.channels, kernel height, kernel width, in.channels / groups].
void convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    int32_t groups,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out);

/// Weight [kernel height, kernel width, out.channels]; out.channels is a multiple of in.channels.
void depthwise_convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out);

/// The weight is [out.channels, kernel height, kernel width, in.channels]. The windows are those of
/// the convolution whose gradient this is, from the output to the input.
void transpose_convolution(
    const ConvolutionParameters& parameters,
    const Image& in_shape,
    const int8_t* in,
    const int8_t* weight,
    const Image& out_shape,
    int8_t* out);

} // namespace torch::executor::native::cortex_m
