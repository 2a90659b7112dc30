#pragma once

#include "kernels/cortex_m/packed.h"

namespace torch::executor::native::cortex_m {

/*
 * A layer's output may overlap its input, where the memory planner places them according to lead()
 * of tools/pipeline/export/backends/cortex_m/pack.py. So the order in which a kernel reads and
 * writes is a part of its interface: outputs are written in order, and the inputs of a step's
 * outputs have been read or copied before. Steps are
 * - convolution with Arrangement::Dsp: four pixels; the last one or two are read meanwhile; if the
 *   input's channels are not a multiple of four, all rows under a pixel's window have been copied,
 * - depthwise convolution with padding: a row, whose input rows are copied; with Arrangement::Dsp,
 *   with or without padding, one or two rows of four channels, of the whole image before other
 *   channels are read, so that outputs must overlap inputs of the same channels,
 * - convolution of several groups: four pixels, whose windows are read meanwhile,
 * - other convolutions: a pixel, whose window is read meanwhile; or several, all of whose windows
 *   are read before their outputs are written, unless nothing overlaps the input,
 * - linear layers: a row, which is read meanwhile,
 * - linear layers of many rows: four rows; the last one or two are read meanwhile.
 */

/// Channels-last images, and the windows from one to the other.
struct PackedImages {
  int32_t batch;
  Window height;
  Window width;
};

/// A kernel of packed layers on images. Like those of packed linear layers below it has two
/// overloads: `Layer` is the layer's parts, or the address of its constant, which the build has
/// checked.
template <class Layer>
using PackedImagesFunction =
    void(Layer layer, const PackedImages& images, const int8_t* in, int8_t* scratch, int8_t* out);

/// The same with `needs`, which are PackedNeeds.
template <class Layer>
using PackedImagesNeedsFunction = void(
    Layer layer,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    uint32_t needs);

/// Returns whether packed_convolution() computes a layer of its kind: any.
inline bool takes_convolution(const PackedLayer& /*layer*/) {
  return true;
}

/// Returns the rows of an image from the first one under a window to the last one.
ET_INLINE int32_t window_rows(const PackedLayer& layer) {
  return (layer.kernel[0] - 1) * layer.dilation[0] + 1;
}

/// Returns the bytes of the rows that a row of windows needs, with the padding beside them.
inline int64_t rows_scratch(const PackedLayer& layer, const Window& width) {
  return (int64_t{width.in} + 2 * width.padding) * layer.in_channels * window_rows(layer);
}

/// Returns the bytes of scratch memory that a packed convolution needs;
/// tools/pipeline/export/backends/cortex_m/pack.py has the same function.
int64_t convolution_scratch(const PackedParts& parts, const Window& width);

PackedImagesNeedsFunction<const PackedParts&> packed_convolution;
PackedImagesNeedsFunction<const int8_t*> packed_convolution;

/// Returns whether packed_grouped_convolution() computes a layer of its kind: not for MVE, and at
/// most 504 products per output, whose sums have no more bits than those of packed_convolution()
/// with any weights.
bool takes_grouped(const PackedLayer& layer);

/// Returns the bytes of scratch memory that packed_grouped_convolution() needs; pack.py has the
/// same function.
int64_t grouped_scratch(const PackedParts& parts, const Window& width);

PackedImagesFunction<const PackedParts&> packed_grouped_convolution;
PackedImagesFunction<const int8_t*> packed_grouped_convolution;

/// Maps `rows` vectors of parts.inner elements to as many of layer->channels; `needs` are
/// PackedNeeds.
template <class Layer>
using LinearFunction =
    void(Layer layer, const int8_t* in, int32_t rows, int8_t* out, uint32_t needs);
LinearFunction<const PackedParts&> packed_linear;
LinearFunction<const int8_t*> packed_linear;

/// Dequantizes the same outputs: out = (output - zero_point) * scale. `out` doesn't overlap `in`.
template <class Layer>
using LinearToFloatFunction = void(
    Layer layer,
    const int8_t* in,
    int32_t rows,
    float scale,
    int32_t zero_point,
    float* out,
    uint32_t needs);
LinearToFloatFunction<const PackedParts&> packed_linear_to_float;
LinearToFloatFunction<const int8_t*> packed_linear_to_float;

/// Quantizes its at most kMostFloats inputs, whose zero point is the layer's, and does the same as
/// packed_linear(). `out` doesn't overlap `in`.
template <class Layer>
using LinearFromFloatFunction = void(
    Layer layer,
    const float* in,
    int32_t rows,
    float inverse_scale,
    int8_t* out,
    uint32_t needs);
LinearFromFloatFunction<const PackedParts&> packed_linear_from_float;
LinearFromFloatFunction<const int8_t*> packed_linear_from_float;

/// Quantizes its inputs like packed_linear_from_float(), and dequantizes its outputs like
/// packed_linear_to_float().
template <class Layer>
using LinearOfFloatsFunction = void(
    Layer layer,
    const float* in,
    int32_t rows,
    float inverse_scale,
    float scale,
    int32_t zero_point,
    float* out,
    uint32_t needs);
LinearOfFloatsFunction<const PackedParts&> packed_linear_of_floats;
LinearOfFloatsFunction<const int8_t*> packed_linear_of_floats;

/// Replaces the outputs of packed_linear() by a table's: out = table[output + 128].
template <class Layer>
using LinearTableFunction = void(
    Layer layer,
    const int8_t* in,
    int32_t rows,
    const int8_t* table,
    int8_t* out,
    uint32_t needs);
LinearTableFunction<const PackedParts&> packed_linear_table;
LinearTableFunction<const int8_t*> packed_linear_table;

/// Returns the bytes of scratch memory that packed_linear_rows() needs; pack.py has the same
/// function.
int64_t linear_rows_scratch(const PackedParts& parts);

/// Does the same as packed_linear() with kNeedsAll, faster from three rows on if the layer is not
/// arranged for MVE: weights are read once for four rows, whose inputs are expanded in `scratch`.
template <class Layer>
using LinearRowsFunction =
    void(Layer layer, const int8_t* in, int32_t rows, int8_t* scratch, int8_t* out);
LinearRowsFunction<const PackedParts&> packed_linear_rows;
LinearRowsFunction<const int8_t*> packed_linear_rows;

} // namespace torch::executor::native::cortex_m
