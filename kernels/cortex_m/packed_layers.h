#pragma once

#include "kernels/cortex_m/packed.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

/*
 * A layer's output may lie over its input, as lead() of
 * tools/pipeline/export/backends/cortex_m/pack.py lets the memory planner place them. So the order
 * in which a kernel reads and writes is part of its interface: outputs are written one after
 * another, and before a step's outputs are written, what they need has been read or copied. Steps
 * are
 * - convolution with Arrangement::Dsp: four pixels; one or two that are left are read meanwhile;
 * where the input's channels are no multiple of four, all rows under a pixel's window have been
 * copied,
 * - depthwise convolution with padding: a row, whose input rows are copied; with Arrangement::Dsp,
 * padded or not, for four channels of the whole image after four, so that outputs must lie over
 * inputs of the same channels,
 * - convolution of several groups: four pixels, whose windows are read meanwhile,
 * - other convolutions: a pixel, whose window is read meanwhile; or several, all of whose windows
 * are read before their outputs are written, unless nothing lies over the input,
 * - linear layers: a row, which is read meanwhile,
 * - linear layers of many rows: four rows; one or two that are left are read meanwhile.
 */

/// Images that lie channels last, and the windows from one to the other.
struct PackedImages {
  int32_t batch;
  Window height;
  Window width;
};

/// Whether packed_convolution() computes a layer of its kind: any.
inline bool takes_convolution(const PackedLayer& /*layer*/) {
  return true;
}

/// Rows of an image from the first one under a window to the last one.
ET_INLINE int32_t window_rows(const PackedLayer& layer) {
  return (layer.kernel[0] - 1) * layer.dilation[0] + 1;
}

/// Bytes of the rows that a row of windows needs, with the padding beside them.
inline int64_t rows_scratch(const PackedLayer& layer, const Window& width) {
  return (int64_t{width.in} + 2 * width.padding) * layer.in_channels * window_rows(layer);
}

/// Bytes of scratch memory that a packed convolution needs;
/// tools/pipeline/export/backends/cortex_m/pack.py has the same function.
int64_t convolution_scratch(const PackedParts& parts, const Window& width);

void packed_convolution(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out);

/// As above, of a packed constant that the build has checked.
void packed_convolution(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out);

/// Whether packed_grouped_convolution() computes a layer of its kind: not those for MVE, nor with
/// more than 504 products per output, whose sums need no more bits than packed_convolution()'s have
/// whatever the weights.
bool takes_grouped(const PackedLayer& layer);

/// Bytes of scratch memory that packed_grouped_convolution() needs; pack.py has the same function.
int64_t grouped_scratch(const PackedParts& parts, const Window& width);

void packed_grouped_convolution(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out);

/// As above, of a packed constant that the build has checked.
void packed_grouped_convolution(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out);

/// `rows` vectors of parts.inner elements to as many of layer->channels; `needs` are PackedNeeds.
void packed_linear(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    uint32_t needs);

/// As above, of a packed constant that the build has checked.
void packed_linear(
    const int8_t* packed,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    uint32_t needs);

/// Bytes of scratch memory that packed_linear_rows() needs; pack.py has the same function.
int64_t linear_rows_scratch(const PackedParts& parts);

/// As packed_linear() with kNeedsAll, and faster from three rows on where the layer is not arranged
/// for MVE: weights are read once for four rows, whose inputs are expanded in `scratch`.
void packed_linear_rows(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int8_t* scratch,
    int8_t* out);

/// As above, of a packed constant that the build has checked.
void packed_linear_rows(
    const int8_t* packed,
    const int8_t* in,
    int32_t rows,
    int8_t* scratch,
    int8_t* out);

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
