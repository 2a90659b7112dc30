#pragma once

#include <type_traits>

#include "kernels/cortex_m/packed.h"
#include "kernels/cortex_m/quantize.h"

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
 * The transposed outputs of linear layers don't overlap the input, nor do floating-point numbers.
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
    void(Layer layer, const int8_t* in, int32_t rows, int8_t* out, int8_t* scratch);
LinearRowsFunction<const PackedParts&> packed_linear_rows;
LinearRowsFunction<const int8_t*> packed_linear_rows;

/// Does the same for a layer that is not arranged for MVE, and transposes the outputs: out[c][r] is
/// that of channel c of row r.
LinearRowsFunction<const PackedParts&> packed_linear_transposed;
LinearRowsFunction<const int8_t*> packed_linear_transposed;

inline const PackedLayer& head_of(const PackedParts& parts) {
  return *parts.layer;
}
inline const PackedLayer& head_of(const int8_t* packed) {
  return *aligned_cast<const PackedLayer>(packed);
}

/**
 * Calls `kFunction`, one of the functions of linear layers above, with inputs or outputs that are
 * floating-point numbers, as LinearFloats says: at most kMostFloats inputs, which it quantizes, and
 * any number of outputs, which it dequantizes.
 *
 * @tparam Function Its type, which determines the overload.
 */
template <class Function, Function& kFunction, class Layer, class In, class Out, class... More>
ET_INLINE void
packed_linear_floats(const Layer& layer, const In* in, int32_t rows, Out* out, More... more) {
  const PackedLayer& head = head_of(layer);
  const LinearFloats floats = linear_floats(head);
  const int8_t* from;
  int8_t* to;
  [[maybe_unused]] int8_t integers[kMostFloats];
  const int32_t count = rows * head.channels;
  if constexpr (std::is_same_v<In, float>) {
    quantize_neighbours(
        floats.inverse_scale,
        head.input_zero_point,
        in,
        integers,
        static_cast<size_t>(rows * head.in_channels));
    from = integers;
  } else {
    from = in;
  }
  if constexpr (std::is_same_v<Out, float>) {
    // The last quarter, so that each integer is read before it is overwritten.
    to = reinterpret_cast<int8_t*>(out) + 3 * count;
  } else {
    to = out;
  }
  kFunction(layer, from, rows, to, more...);
  if constexpr (std::is_same_v<Out, float>) {
    const Quantization quantization = {0, static_cast<float>(floats.zero_point), 0, 0};
    dequantize(quantization, floats.scale, to, 1, out, static_cast<size_t>(count));
  }
}

} // namespace torch::executor::native::cortex_m
