#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cortex_m/image.h"
#include "kernels/util/aligned.h"

namespace torch::executor::native::cortex_m {

/// The instructions that the weights of a packed layer are arranged for.
enum class Arrangement : uint8_t {
  /// Pairs of output channels; per two products and pair a word: its even bytes are the first
  /// channel's weights, its odd bytes the second's. Products come in fours: 0 and 2, then 1 and 3.
  /// Depthwise layers, which have four channels or more, have groups of four, with a word per
  /// kernel element; the last group is that of the last four channels, even if some are in the one
  /// before.
  Scalar = 1,
  /// The same as in the dialect, [out, height, width, in], and zeros until the last row is a
  /// multiple of sixteen. Depthwise layers have groups of sixteen channels, with sixteen bytes per
  /// kernel element.
  Mve = 2,
  /// The same as Scalar, but each half of a pair's word, a number of 16 bits, is 256 times the
  /// second channel's weight plus the first channel's. Those of depthwise layers are as with
  /// Scalar.
  Dsp = 3,
};

/// The operation of a packed layer. PointwiseInt4 is a convolution of one by one, without stride
/// and padding; it and LinearInt4 have weights of four bits. Grouped is a convolution of several
/// groups, each of which takes a multiple of four inputs to an even number of outputs.
enum class LayerKind : uint8_t {
  Convolution = 1,
  Depthwise = 2,
  Linear = 3,
  LinearInt4 = 4,
  PointwiseInt4 = 5,
  Grouped = 7,
};

/// Returns whether a layer's weights have four bits.
constexpr bool is_int4(LayerKind kind) {
  return kind == LayerKind::LinearInt4 || kind == LayerKind::PointwiseInt4;
}

/// The number of contiguous inputs whose int4 weights share a factor.
constexpr uint32_t kInt4Block = 32;

/**
 * The head of a packed constant, which tools/pipeline/export/backends/cortex_m/pack.py writes; its
 * `Head` has the same members. All of a layer but its images: after the head come, for `channels`
 * output channels rounded up to even (of a depthwise layer for MVE to sixteens), biases (int32,
 * with the input's zero point and the kernel's sum folded in), multipliers (int32) and shifts
 * (int8, rounded up to fours), of a linear layer one each, four times, and then the weights. The
 * shift of a layer that is not wide nor arranged for MVE is to the right, less one; others are to
 * the left.
 *
 * Layers with int4 weights have tables of channels rounded up to fours, a multiplier and a shift
 * for each of them. They are not wide. Their weights are signed, of groups of four channels, of
 * each blocks of 32 inputs. A block begins with the factors (uint8) that its weights are multiplied
 * with, one per channel, if group_size is not 0: the sums of all blocks have one multiplier then.
 * - Scalar, Dsp: inputs are rounded up to eights with zeros. Per eight inputs a word of each
 * channel; from its lowest bits on it has the weights of inputs 5, 4, 1, 0, 7, 6, 3 and 2.
 * - Mve: per channel sixteen bytes, with the first sixteen inputs' weights in their low halves and
 * the others in their high ones; of the last block, of n inputs, (n + 1) / 2 bytes with as many
 * inputs in the low halves.
 */
struct PackedLayer {
  uint8_t version;
  Arrangement arrangement;
  LayerKind kind;
  /// 1 if an output needs 64-bit arithmetic; of a depthwise layer for MVE and any other for scalars
  /// also if two products that are added need more than 16 bits.
  uint8_t is_wide;
  uint16_t in_channels;
  /// The number of inputs that share a factor of int4 weights, kInt4Block; 0 if all of a channel
  /// do. For Grouped: inputs of a group. For other convolutions and linear layers for DSP: 1 if no
  /// sum of a pair's second channel needs more than 24 bits, but for its bias.
  uint16_t group_size;
  int32_t channels;
  /// Of linear layers these and the next ones are LinearFloats.
  uint16_t kernel[2];
  uint16_t stride[2];
  uint16_t padding[2];
  uint16_t dilation[2];
  /// The input's zero point, which padding has.
  int16_t input_zero_point;
  int16_t output_offset;
  int16_t min;
  int16_t max;
};
static_assert(sizeof(PackedLayer) == 36);

constexpr uint8_t kPackedVersion = 5;

/// How a linear layer quantizes inputs and dequantizes outputs that are floating-point numbers. The
/// inputs' zero point is the layer's.
struct LinearFloats {
  float inverse_scale;
  float scale;
  int16_t zero_point;
  int16_t unused[3];
};

/// Returns a linear layer's LinearFloats. Compilers load what is used of them, but would copy them
/// as a whole.
ET_INLINE LinearFloats linear_floats(const PackedLayer& layer) {
  const auto* const from = reinterpret_cast<const int8_t*>(&layer) + offsetof(PackedLayer, kernel);
  LinearFloats floats = {};
  std::memcpy(&floats.inverse_scale, from, sizeof(float));
  std::memcpy(&floats.scale, from + offsetof(LinearFloats, scale), sizeof(float));
  std::memcpy(&floats.zero_point, from + offsetof(LinearFloats, zero_point), sizeof(int16_t));
  return floats;
}

/// The largest number of channels, and of elements of a kernel: both have a product of 32 bits.
constexpr uint32_t kMaxPackedSize = 0xFFFF;
/// The largest extent of a kernel, stride, padding and dilation, which Window has, too.
constexpr uint32_t kMaxPackedWindow = 0x7FFF;
/// The largest number of products per output.
constexpr uint32_t kMaxPackedInner = 0x7FFFFFF;
/// The largest height of a depthwise layer's kernel.
constexpr int32_t kMaxDepthwiseKernel = 15;
/// The largest number of inputs that a linear layer quantizes itself.
constexpr int32_t kMostFloats = 64;
/// Products for DSP of which a sum has 24 bits, whatever is multiplied, rounded down to eights.
constexpr int32_t kPackedShortSum = 504;

/// Returns whether a layer is arranged for MVE, of those that this core takes.
inline bool is_for_vectors([[maybe_unused]] const PackedLayer& layer) {
#if defined(__ARM_FEATURE_MVE)
  return true;
#elif defined(__ARM_FEATURE_DSP)
  return false;
#else
  return layer.arrangement == Arrangement::Mve;
#endif
}

/// Returns the index of a channel in a depthwise layer's tables: those for MVE have sixteen
/// channels in the order 0, 4, 8, 12, 1 and so on, as widening multiplications leave them.
inline int32_t depthwise_place(const PackedLayer& layer, int32_t channel) {
  return is_for_vectors(layer) ? (channel & ~15) | (channel & 3) << 2 | (channel >> 2 & 3)
                               : channel;
}

/// The addresses of the parts of a packed layer.
struct PackedParts {
  const PackedLayer* layer;
  const int32_t* bias;
  const int32_t* multipliers;
  const int8_t* shifts;
  const int8_t* weights;
  /// The distance from a channel's multiplier and shift to the next one's: 1, or 0 for a linear
  /// layer in int8.
  int32_t factor_step;
  /// Products per output, and that many rounded up as the weights are.
  int32_t inner;
  int32_t padded_inner;
};

/// The sizes of the parts of a packed constant, from its header.
struct PackedCounts {
  uint32_t table_channels;
  uint32_t factors;
  uint32_t inner;
  uint32_t padded_inner;
  /// Bytes before the weights.
  uint32_t tables;
};

/// Rounds up to a multiple, a power of two.
constexpr uint32_t round_up(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) & ~(multiple - 1);
}

/// `taps`: elements of the kernel, 1 of a linear layer.
ET_INLINE PackedCounts packed_counts(const PackedLayer& layer, LayerKind kind, uint32_t taps) {
  const bool is_depthwise = kind == LayerKind::Depthwise;
  const bool is_mve = is_for_vectors(layer);
  PackedCounts counts;
  counts.table_channels = round_up(
      static_cast<uint32_t>(layer.channels),
      is_int4(kind)                ? 4
          : is_depthwise && is_mve ? 16
                                   : 2);
  counts.factors = kind == LayerKind::Linear ? 4 : counts.table_channels;
  counts.inner = is_depthwise
      ? taps
      : taps * (kind == LayerKind::Grouped ? layer.group_size : layer.in_channels);
  counts.padded_inner =
      is_depthwise || is_mve ? counts.inner : round_up(counts.inner, is_int4(kind) ? 8 : 4);
  counts.tables = static_cast<uint32_t>(sizeof(PackedLayer)) +
      4 * (counts.table_channels + counts.factors) + round_up(counts.factors, 4);
  return counts;
}

/// Bytes of the int4 weights of four channels.
ET_INLINE uint32_t int4_group_bytes(const PackedLayer& layer, const PackedCounts& counts) {
  const uint32_t inner = counts.padded_inner;
  const uint32_t blocks = (inner + kInt4Block - 1) / kInt4Block;
  // An odd input of the last block has a byte of its own.
  return 4 * ((inner + 1) / 2 + (layer.group_size != 0 ? blocks : 0));
}

/// Returns the parts of a packed constant that begins at `data`.
ET_INLINE PackedParts packed_parts(const int8_t* data, LayerKind kind, const PackedCounts& counts) {
  const auto* const layer = aligned_cast<const PackedLayer>(data);
  const auto* const bias = aligned_cast<const int32_t>(data + sizeof(PackedLayer));
  const int32_t* const multipliers = bias + counts.table_channels;
  return {
      layer,
      bias,
      multipliers,
      reinterpret_cast<const int8_t*>(multipliers + counts.factors),
      data + counts.tables,
      kind == LayerKind::Linear ? 0 : 1,
      static_cast<int32_t>(counts.inner),
      static_cast<int32_t>(counts.padded_inner)};
}

/// The parts of a packed linear layer that the build has checked.
ET_INLINE PackedParts linear_parts(const int8_t* data) {
  return packed_parts(
      data,
      LayerKind::Linear,
      packed_counts(*aligned_cast<const PackedLayer>(data), LayerKind::Linear, 1));
}

/// The parts of a packed layer on images that the build has checked.
ET_INLINE PackedParts image_parts(const int8_t* data, LayerKind kind) {
  const auto& layer = *aligned_cast<const PackedLayer>(data);
  const uint32_t taps = static_cast<uint32_t>(layer.kernel[0]) * layer.kernel[1];
  return packed_parts(data, kind, packed_counts(layer, kind, taps));
}

/// Finds the parts of a packed constant, which the loader has checked: check_packed() of
/// runtime/kernel/kernel_lookup.h. Fails the context (InvalidProgram) and returns false for another
/// kind.
bool find_packed(
    KernelRuntimeContext& ctx,
    const Tensor& packed,
    LayerKind kind,
    PackedParts& parts);

/// The features that some layers of a program need and others don't. If it is a constant, the
/// compiler omits unused ones.
enum PackedNeeds : uint32_t {
  /// PackedLayer::is_wide.
  kNeedsWide = 1,
  /// A range that is less than int8's.
  kNeedsRange = 2,
  /// Inputs that are no multiple of eight.
  kNeedsRest = 4,
  /// Linear layers for DSP whose sums of second channels exceed 24 bits.
  kNeedsLong = 8,
  /// Depthwise layers of three by three for DSP, and others.
  kNeedsColumns = 16,
  kNeedsOthers = 32,
  /// One input, which has a loop of its own then: faster, and not needed.
  kNeedsSingle = 64,
  /// Depthwise layers that are is_channelwise().
  kNeedsChannelwise = 128,
  /// Convolutions, but for those with Arrangement::Mve: of one by one without stride and padding,
  /// others whose input channels are a multiple of four, and the rest.
  kNeedsPixels = 256,
  kNeedsWindows = 512,
  kNeedsGathered = 1024,
  /// Linear layers of many inputs, which have a longer loop then: faster, and not needed.
  kNeedsMany = 2048,
  /// Linear layers of more than one vector, which are set up once then: faster, and not needed.
  kNeedsRows = 4096,
  kNeedsAll = 63 | kNeedsChannelwise | kNeedsPixels | kNeedsWindows | kNeedsGathered | kNeedsRows,
};

} // namespace torch::executor::native::cortex_m
