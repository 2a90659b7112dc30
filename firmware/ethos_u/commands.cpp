#include "firmware/ethos_u/commands.h"

#include <cinttypes>
#include <initializer_list>
#include <iterator>

#include <executorch/runtime/platform/assert.h>
#include <executorch/runtime/platform/log.h>

#include "firmware/ethos_u/registers.h"

namespace torch_fusion::ethos_u {

using executorch::runtime::Error;

namespace {

/// Operations, by number.
enum Operation : uint32_t {
  kStop = 0x000,
  kConvolution = 0x002,
  kDepthwise = 0x003,
  kPool = 0x005,
  kElementwise = 0x006,
  kResize = 0x007,
  kDmaStart = 0x010,
};

/// The distance of each feature map's registers from those below.
enum Map : uint32_t { kIfm = 0x00, kOfm = 0x10, kIfm2 = 0x80 };

/// Registers of 16 bits, by the number of the command that sets them.
enum Short : uint32_t {
  kPadTop = 0x100,
  kPadLeft = 0x101,
  kPadRight = 0x102,
  kPadBottom = 0x103,
  kIfmDepth = 0x104,
  kIfmPrecision = 0x105,
  kUpscale = 0x107,
  kIfmBroadcast = 0x108,
  kWidth0 = 0x10A,
  kHeight0 = 0x10B,
  kHeight1 = 0x10C,
  kMapRegion = 0x10F,
  kOfmWidth = 0x111,
  kOfmHeight = 0x112,
  kOfmDepth = 0x113,
  kOfmPrecision = 0x114,
  kKernelWidth = 0x120,
  kKernelHeight = 0x121,
  kKernelStride = 0x122,
  kAccumulatorFormat = 0x124,
  kWeightRegion = 0x128,
  kScaleRegion = 0x129,
  kWeightFormat = 0x12E,
  kDmaSourceRegion = 0x130,
  kDmaDestinationRegion = 0x131,
  kDmaSize0 = 0x132,
  kDmaSize1 = 0x133,
  kDmaIndexRegion = 0x134,
  kIfm2Broadcast = 0x180,
};

/// Registers of 32 bits and the parameter's 16; a stream's length follows its base.
enum Long : uint32_t {
  kBase0 = 0x000,
  kStrideX = 0x004,
  kStrideY = 0x005,
  kStrideC = 0x006,
  kWeights = 0x020,
  kScales = 0x022,
  kDmaSource = 0x030,
  kDmaDestination = 0x031,
  kDmaLength = 0x032,
  kDmaSourceStride0 = 0x033,
  kDmaDestinationStride0 = 0x035,
  kDmaIndices = 0x037,
  kDmaLargestIndex = 0x038,
  kDmaIndexSkip1 = 0x039,
  kMoreWeights = 0x090,
};

/// Modes of pooling and of elementwise operations.
enum Mode : uint32_t {
  kReduceSum = 2,
  kNoPooling = 4,
  kLeakyRelu = 5,
  kAbs = 6,
  kCountLeadingZeros = 7,
  kNot = 36,
};

/// U85's precisions tell with these whether a feature map is in memory.
constexpr uint32_t kChained = 2;
constexpr uint32_t kBrick = 16;
constexpr int64_t kScaleBytes = 10;
/// U85's memory for tables; that of U55 and U65 is in CONFIG.
constexpr int64_t kTablesBytes = 2048;
/// This lets the largest offset fit into 63 bits; a table has fewer rows.
constexpr uint32_t kMostIndices = 1u << 23;

constexpr uint32_t bits(std::initializer_list<unsigned> numbers) {
  uint32_t result = 0;
  for (const unsigned number : numbers) {
    result |= 1u << number % 32;
  }
  return result;
}

/// The commands of an NPU: a bit for each number, from the group's first one on.
struct CommandSet {
  uint32_t operations; // From 0x000.
  uint32_t shorts[3];  // From 0x100, 0x120, 0x180.
  uint32_t longs[3];   // From 0x000, 0x020, 0x080.
};

constexpr CommandSet kCommon = {
    bits({0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13}),
    {bits({0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x07, 0x09, 0x0A, 0x0B, 0x0C, 0x0F,
           0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x1A, 0x1B, 0x1C, 0x1F}),
     bits({0x20, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2F, 0x30, 0x31, 0x32, 0x33}),
     bits({0x80, 0x85, 0x89, 0x8A, 0x8B, 0x8C, 0x8F})},
    {bits({0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16}),
     bits({0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x30, 0x31, 0x32, 0x33, 0x34}),
     bits({0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x90, 0x91, 0x92, 0x93})}};

/// Commands that only U55 and U65, or only U85 have.
constexpr CommandSet kOwn[] = {
    {0, {bits({0x0D}), bits({0x23, 0x2D}), bits({0x81, 0x8D})}, {0, 0, 0}},
    {bits({0x07}),
     {bits({0x08}), bits({0x2A, 0x2B, 0x2C, 0x2D, 0x2E, 0x34}), 0},
     {0, bits({0x27, 0x35, 0x36, 0x37, 0x38, 0x39}), bits({0x94, 0x95, 0x96, 0x97})}}};

/// Axes of U85's output in terms of [height, width, depth], by the number in OFM_PRECISION.
constexpr uint8_t kTransposes[][3] =
    {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {3, 3, 3}, {3, 3, 3}, {2, 0, 1}, {2, 1, 0}};

/// Height, width and depth.
struct Shape {
  int32_t sizes[3];
};

/// The bytes that an operation can reach around an address.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  /// Repeats the range `count` times, `stride` bytes apart.
  void repeat(int64_t count, int64_t stride) {
    const int64_t last = (count - 1) * stride;
    (last < 0 ? begin : end) += last;
  }
};

/// The registers that the commands set, and what the operations between them reach.
class Checker final {
 public:
  Checker(const Payload& payload, uint32_t cache_size)
      : payload_(payload),
        sizes_{
            payload.weights.size(),
            payload.scratch_size,
            cache_size != 0 ? cache_size : payload.scratch_size},
        is_u85_(payload.config >> kProductBit == kU85) {}

  /// Returns how many words of the commands are sound: all up to STOP, and `is_sound`, or those
  /// before the one that is not.
  size_t check(bool& is_sound) {
    const auto words = payload_.commands;
    is_sound = false;
    size_t i = 0;
    while (i < words.size()) {
      const uint32_t command = words[i] & 0x3FF;
      const uint32_t parameter = words[i] >> 16;
      const bool is_long = (words[i] >> 14 & 3) == 1;
      const size_t length = is_long ? 2 : 1;
      if ((words[i] >> 15 & 1) != 0 || !is_known(command, is_long) || words.size() - i < length) {
        return i;
      }
      if (is_long) {
        const uint32_t at = slot(command);
        values_[at] = words[i + 1];
        parameters_[at] = static_cast<uint16_t>(parameter);
        long_is_set_[at / 32] |= 1u << at % 32;
      } else if (command >= 0x100) {
        const uint32_t at = slot(command);
        shorts_[at] = static_cast<uint16_t>(parameter);
        short_is_set_[at / 32] |= 1u << at % 32;
      } else if (command == kStop) {
        is_sound = true;
        return i + 1;
      } else {
        execute(command, parameter);
      }
      if (!is_sound_) {
        return i;
      }
      i += length;
    }
    return i;
  }

 private:
  bool is_known(uint32_t command, bool is_long) const {
    const uint32_t group = command >> 5;
    const CommandSet& own = kOwn[is_u85_];
    uint32_t known = 0;
    if (is_long) {
      const uint32_t index = group == 4 ? 2 : group;
      known = index <= 2 && group != 2 ? kCommon.longs[index] | own.longs[index] : 0;
    } else if (group == 0) {
      known = kCommon.operations | own.operations;
    } else {
      const uint32_t index = group == 12 ? 2 : group - 8;
      known = index <= 2 && group != 10 ? kCommon.shorts[index] | own.shorts[index] : 0;
    }
    return (known >> command % 32 & 1) != 0;
  }

  // Registers

  /// A register's value has this index: numbers whose lowest byte is 0x00 to 0x3F, then 0x80 to
  /// 0x97.
  static uint32_t slot(uint32_t command) {
    return (command & 0x3F) | (command & 0x80) >> 1;
  }

  uint32_t get(uint32_t command) {
    const uint32_t at = slot(command);
    is_sound_ &= (short_is_set_[at / 32] >> at % 32 & 1) != 0;
    return shorts_[at];
  }

  /// Returns what a register holds that is set to a size - 1.
  int32_t size(uint32_t command) {
    return static_cast<int32_t>(get(command)) + 1;
  }

  uint32_t value(uint32_t command) {
    const uint32_t at = slot(command);
    is_sound_ &= (long_is_set_[at / 32] >> at % 32 & 1) != 0;
    return values_[at];
  }

  /// Returns an address of 40 bits.
  int64_t address(uint32_t command) {
    const uint64_t low = value(command);
    return static_cast<int64_t>(
        low | static_cast<uint64_t>(parameters_[slot(command)] & 0xFF) << 32);
  }

  /// Returns a stride of 40 bits, which may be negative.
  int64_t stride(uint32_t command) {
    const int64_t positive = address(command);
    return positive >> 39 != 0 ? positive - (int64_t{1} << 40) : positive;
  }

  // Memory

  void reach(uint32_t region, const Range& range, bool writes) {
    region &= 7;
    // Other regions get no address of the driver.
    is_sound_ &= range.begin == range.end ||
        (region < std::size(sizes_) && !(writes && region == 0) && range.begin >= 0 &&
         range.end <= static_cast<int64_t>(sizes_[region]));
  }

  /// A stream of weights or scales.
  void reach_stream(uint32_t region, uint32_t base, uint32_t length) {
    if (length != 0) {
      const int64_t begin = address(base);
      reach(get(region), {begin, begin + length}, false);
    }
  }

  /// The part of a feature map that one of its tiles has.
  void reach_tile(
      Map map,
      uint32_t tile,
      uint32_t precision,
      int32_t rows,
      int32_t columns,
      int32_t depth) {
    const uint32_t first = map;
    const int64_t size = 1 << (precision >> (map == kOfm ? 1 : 2) & 3);
    Range range;
    if ((precision >> 6 & 1) != 0) {
      // Bricks of 16 channels; the last one ends with the last channel.
      const int64_t whole = static_cast<uint32_t>(depth) / kBrick;
      const int64_t rest = static_cast<uint32_t>(depth) % kBrick;
      const int64_t stride_c = stride(first + kStrideC);
      range.end = rest * size;
      if (rest != 0) {
        (stride_c < 0 ? range.begin : range.end) += whole * stride_c;
      }
      if (whole != 0) {
        Range bricks = {0, kBrick * size};
        bricks.repeat(whole, stride_c);
        range.begin = bricks.begin < range.begin ? bricks.begin : range.begin;
        range.end = bricks.end > range.end ? bricks.end : range.end;
      }
      range.repeat(columns, kBrick * size);
    } else {
      range.end = depth * size;
      range.repeat(columns, stride(first + kStrideX));
    }
    range.repeat(rows, stride(first + kStrideY));
    const int64_t base = address(first + kBase0 + tile);
    reach(get(first + kMapRegion), {base + range.begin, base + range.end}, map == kOfm);
  }

  /// A feature map: up to four tiles, split at a column, and at a row that both sides have.
  void reach_map(Map map, const Shape& shape) {
    const uint32_t first = map;
    const uint32_t precision = get(map == kOfm ? uint32_t{kOfmPrecision} : first + kIfmPrecision);
    const uint32_t storage = is_u85_ ? precision >> 14 : 0;
    if (storage == kChained || (map == kOfm && storage > kChained)) {
      return;
    }
    is_sound_ &= (precision >> 7 & 1) == 0;
    const int32_t left = size(first + kWidth0);
    for (uint32_t tile = 0; tile < 4; ++tile) {
      const int32_t top = size(first + (tile % 2 == 0 ? kHeight0 : kHeight1));
      const int32_t rows = part(shape.sizes[0], top, tile / 2);
      const int32_t columns = part(shape.sizes[1], left, tile % 2);
      if (rows > 0 && columns > 0) {
        reach_tile(map, tile, precision, rows, columns, shape.sizes[2]);
      }
    }
  }

  /// Returns the part of a length before a split, or behind it.
  static int32_t part(int32_t length, int32_t split, uint32_t is_behind) {
    if (is_behind != 0) {
      return length - split;
    }
    return length < split ? length : split;
  }

  // Operations

  Shape output_shape() {
    return {{size(kOfmHeight), size(kOfmWidth), size(kOfmDepth)}};
  }

  void execute(uint32_t operation, uint32_t parameter) {
    switch (operation) {
      case kConvolution:
        convolution(false, is_u85_ && parameter % 2 != 0);
        break;
      case kDepthwise:
        convolution(true, false);
        break;
      case kPool:
        pool(is_u85_ ? parameter & 7 : parameter);
        break;
      case kElementwise:
        elementwise(is_u85_ ? parameter & 63 : parameter);
        break;
      case kResize:
        reach_map(kIfm, {{size(kKernelHeight), size(kKernelWidth), size(kIfmDepth)}});
        finish(output_shape(), false);
        break;
      case kDmaStart:
        dma();
        break;
      default:
        // Waits, interrupts and counters address nothing.
        break;
    }
  }

  /// Returns how many rows or columns of the input `count` windows see.
  int32_t seen(int32_t count, int32_t stride, uint32_t kernel, uint32_t before, uint32_t after) {
    const int32_t padding = static_cast<int32_t>(get(before) + get(after));
    const int32_t inside = (count - 1) * stride + size(kernel) - padding;
    const uint32_t upscale = get(kUpscale) & 3;
    is_sound_ &= inside > 0 && upscale != 3;
    return upscale != 0 ? (inside + 1) / 2 : inside;
  }

  /// The input of a convolution or a pooling.
  void reach_windows(const Shape& output, int32_t depth) {
    const uint32_t strides = get(kKernelStride);
    const int32_t stride_y = static_cast<int32_t>(1 + (strides >> 1 & 1) + 2 * (strides >> 9 & 1));
    const int32_t stride_x = static_cast<int32_t>(1 + (strides & 1) + 2 * (strides >> 6 & 1));
    const int32_t rows = seen(output.sizes[0], stride_y, kKernelHeight, kPadTop, kPadBottom);
    const int32_t columns = seen(output.sizes[1], stride_x, kKernelWidth, kPadLeft, kPadRight);
    reach_map(kIfm, {{rows, columns, depth}});
  }

  /// Returns how many cores share the channels: U65 with 512 multipliers has two, which is its
  /// log2.
  int32_t cores() const {
    return !is_u85_ && (payload_.config & 0xF) == 9 ? 2 : 1;
  }

  void reach_weights(int32_t channels) {
    uint32_t streams = channels > 1 ? static_cast<uint32_t>(cores()) : 1;
    if (is_u85_) {
      const bool is_fast = (get(kWeightFormat) & 1) != 0;
      const uint32_t decoders = payload_.config >> 12 & 0xF;
      streams = is_fast ? 1 : 1u << (decoders < 2 ? decoders : 2);
    }
    for (uint32_t i = 0; i < streams; ++i) {
      const uint32_t base = i == 0 ? kWeights : kMoreWeights + 2 * (i - 1);
      reach_stream(kWeightRegion, base, value(base + 1));
    }
  }

  /// Bias and scale of each channel.
  void reach_scales(int32_t channels) {
    const int32_t count = cores();
    for (int32_t core = 0; core < count && core < channels; ++core) {
      const uint32_t base = core == 0 ? kScales : kMoreWeights + 2;
      const uint32_t length = value(base + 1) & (is_u85_ ? 0xFFFFF : ~0u);
      is_sound_ &= length >= kScaleBytes * ((channels - core + count - 1) / count);
      reach_stream(kScaleRegion, base, length);
    }
  }

  /// Scales and output, and of U85 what the accumulators begin with.
  void finish(const Shape& shape, bool is_scaled) {
    const uint32_t accumulators = is_u85_ ? get(kAccumulatorFormat) : 0;
    if (is_scaled && (accumulators >> 4 & 3) == 2) {
      reach_map(kIfm2, shape);
    }
    if ((accumulators >> 6 & 1) != 0) {
      return;
    }
    if (is_scaled && (get(kOfmPrecision) >> 8 & 1) == 0) {
      reach_scales(shape.sizes[2]);
    }
    reach_output(shape);
  }

  void reach_output(const Shape& shape) {
    Shape stored = shape;
    const uint32_t transpose = is_u85_ ? get(kOfmPrecision) >> 11 & 7 : 0;
    for (uint32_t i = 0; i < 3; ++i) {
      const uint32_t axis = kTransposes[transpose][i];
      is_sound_ &= axis < 3;
      stored.sizes[i] = shape.sizes[axis % 3];
    }
    reach_map(kOfm, stored);
  }

  void convolution(bool is_depthwise, bool is_matrix_product) {
    const Shape output = output_shape();
    const int32_t depth = size(kIfmDepth);
    is_sound_ &= !is_depthwise || depth == output.sizes[2];
    reach_windows(output, depth);
    if (is_matrix_product) {
      reach_map(kIfm2, {{1, output.sizes[2], depth}});
    } else {
      reach_weights(output.sizes[2]);
    }
    finish(output, true);
  }

  void pool(uint32_t mode) {
    const Shape output = output_shape();
    if (mode != kNoPooling || !is_u85_) {
      const int32_t depth = size(kIfmDepth);
      is_sound_ &= output.sizes[2] == (mode == kReduceSum ? 1 : depth);
      reach_windows(output, depth);
    }
    finish(output, true);
  }

  /// An operand of an elementwise operation, of which axes of size 1 are repeated.
  void reach_operand(Map map, const Shape& output, uint32_t broadcast) {
    if ((broadcast & (is_u85_ ? 0x08 : 0x80)) != 0) {
      return; // A number.
    }
    Shape shape = output;
    for (uint32_t axis = 0; axis < 3; ++axis) {
      if ((broadcast >> axis & 1) != 0) {
        shape.sizes[axis] = 1;
      }
    }
    reach_map(map, shape);
  }

  void elementwise(uint32_t mode) {
    const Shape output = output_shape();
    reach_operand(kIfm, output, is_u85_ ? get(kIfmBroadcast) : 0);
    const bool is_unary = mode == kLeakyRelu || mode == kAbs || mode == kCountLeadingZeros ||
        (mode == kNot && is_u85_);
    if (!is_unary) {
      reach_operand(kIfm2, output, get(kIfm2Broadcast));
    }
    reach_output(output);
  }

  /// One side of a DMA: `rows` pieces, or as many as there are indices, in each of some planes.
  void reach_dma(uint32_t where, Long base, Long stride0, uint32_t rows, uint32_t planes) {
    const int64_t length = address(kDmaLength);
    Range range = {0, length};
    if (planes > 1) {
      range.repeat(planes, stride(stride0 + 1));
    }
    if ((where >> 11 & 1) != 0) {
      rows = value(kDmaLargestIndex);
      is_sound_ &= rows < kMostIndices;
      rows = (rows & (kMostIndices - 1)) + 1;
    }
    if (rows > 1) {
      range.repeat(rows, stride(stride0));
    }
    const int64_t first = address(base);
    range.begin += first;
    range.end += first;
    const bool writes = base == kDmaDestination;
    if ((where >> 8 & 1) == 0) {
      reach(where, range, writes);
    } else {
      // The NPU's own memory, for tables: each core has its own part.
      const int64_t kib = static_cast<int32_t>(payload_.config >> 8 & 0xFF) / cores();
      const int64_t size = is_u85_ ? kTablesBytes : kib << 10;
      is_sound_ &= writes && range.begin >= 0 && range.end <= size;
    }
  }

  void dma() {
    const uint32_t source = get(kDmaSourceRegion);
    const uint32_t destination = get(kDmaDestinationRegion);
    const uint32_t dimensions = source >> 9 & 3;
    const bool is_indexed = ((source | destination) >> 11 & 1) != 0;
    uint32_t rows = 1;
    uint32_t planes = 1;
    if (!is_u85_) {
      // No compiler makes commands with other values.
      is_sound_ &= ((source | destination) >> 9 & 7) == 0;
    } else if (dimensions != 0 || is_indexed) {
      rows = get(kDmaSize0);
      planes = dimensions == 2 ? get(kDmaSize1) : 1;
      is_sound_ &= rows != 0 && planes != 0 && dimensions != 3;
    }
    if (is_indexed) {
      const int64_t first = address(kDmaIndices);
      const int64_t length = int64_t{4} * rows;
      Range range = {first, first + length};
      if (planes > 1) {
        range.repeat(planes, length + stride(kDmaIndexSkip1));
      }
      reach(get(kDmaIndexRegion), range, false);
    }
    reach_dma(source, kDmaSource, kDmaSourceStride0, rows, planes);
    reach_dma(destination, kDmaDestination, kDmaDestinationStride0, rows, planes);
  }

  const Payload& payload_;
  /// Bytes of regions 0 to 2.
  const size_t sizes_[3];
  const bool is_u85_;
  bool is_sound_ = true;
  uint32_t short_is_set_[3] = {};
  uint32_t long_is_set_[3] = {};
  uint32_t values_[0x58] = {};
  uint16_t parameters_[0x58] = {};
  uint16_t shorts_[0x50] = {};
};

} // namespace

Error check_commands(const Payload& payload, uint32_t cache_size) {
  bool is_sound = false;
  [[maybe_unused]] const size_t word = Checker(payload, cache_size).check(is_sound);
  ET_CHECK_OR_RETURN_ERROR(
      is_sound,
      DelegateInvalidCompatibility,
      "word %zu of the NPU's commands, 0x%08" PRIx32
      ", is no command of it, or reaches beyond the program's weights and memory",
      word,
      word < payload.commands.size() ? payload.commands[word] : 0);
  return Error::Ok;
}

} // namespace torch_fusion::ethos_u
