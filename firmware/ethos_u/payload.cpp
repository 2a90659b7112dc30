#include "firmware/ethos_u/payload.h"

#include <cinttypes>
#include <cstring>

#include <executorch/runtime/platform/assert.h>
#include <executorch/runtime/platform/log.h>

namespace torch_fusion::ethos_u {

using executorch::runtime::Error;
using executorch::runtime::Span;

namespace {

constexpr size_t kNameSize = 16;
constexpr size_t kHeaderSize = 32;

/// The meaning of the lowest byte of a word for the driver.
constexpr uint32_t kConfiguration = 1;
constexpr uint32_t kCommandStream = 2;
constexpr uint32_t kNothing = 5;

/// Takes blocks from the front of a payload.
class Blocks final {
 public:
  explicit Blocks(Span<const uint8_t> data) : data_(data.data()), left_(data.size()) {}

  /// Takes the block of a name; returns false if it isn't there as a whole.
  bool take(const char* name, Span<const uint8_t>& block) {
    char expected[kNameSize] = {};
    std::strncpy(expected, name, kNameSize);
    uint32_t length = 0;
    if (left_ >= kHeaderSize) {
      std::memcpy(&length, data_ + kNameSize, sizeof(length));
    }
    const bool is_there = left_ >= kHeaderSize && std::memcmp(data_, expected, kNameSize) == 0 &&
        length <= left_ - kHeaderSize;
    ET_CHECK_OR_RETURN_FALSE(
        is_there, "the NPU's payload has no block %s where it belongs: it is corrupted", name);
    block = {data_ + kHeaderSize, length};
    const size_t padded = kHeaderSize + (length + kAlignment - 1) / kAlignment * kAlignment;
    const size_t step = padded < left_ ? padded : left_;
    data_ += step;
    left_ -= step;
    return true;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

bool parse_commands(Span<const uint8_t> block, Payload& payload) {
  static constexpr uint8_t kMagic[] = {'C', 'O', 'P', '1'};
  ET_CHECK_OR_RETURN_FALSE(
      block.size() >= sizeof(kMagic) && block.size() % 4 == 0 &&
          std::memcmp(block.data(), kMagic, sizeof(kMagic)) == 0,
      "the NPU's commands are of another format");
  // Blocks begin at multiples of kAlignment, as the payload does.
  const void* const begin = block.data();
  const Span<const uint32_t> words(static_cast<const uint32_t*>(begin), block.size() / 4);
  bool is_configured = false;
  for (size_t i = 1; i < words.size();) {
    const uint32_t action = words[i++];
    const size_t left = words.size() - i;
    if ((action & 0xFF) == kConfiguration && left >= 2) {
      payload.config = words[i];
      payload.architecture = words[i + 1];
      is_configured = true;
      i += 2;
    } else if ((action & 0xFF) == kCommandStream) {
      const uint32_t length = action >> 16 | (action >> 8 & 0xFF) << 16;
      ET_CHECK_OR_RETURN_FALSE(
          is_configured && length <= left && length != 0,
          "the NPU's commands are cut off, or don't say for which NPU they are");
      // Words of kNothing before it see to that (driver_actions.py of Vela).
      ET_CHECK_OR_RETURN_FALSE(
          reinterpret_cast<uintptr_t>(words.data() + i) % kAlignment == 0,
          "the NPU's commands begin %zu bytes behind a multiple of %zu, where the NPU can't start",
          4 * i % kAlignment,
          kAlignment);
      payload.commands = {words.data() + i, length};
      return true;
    } else if ((action & 0xFF) != kNothing) {
      break;
    }
  }
  ET_LOG(Error, "the NPU's payload has no commands");
  return false;
}

bool parse_places(
    [[maybe_unused]] const char* name, // Nobody reads it without a console.
    Span<const uint8_t> block,
    uint32_t scratch_size,
    Span<const TensorPlace>& places) {
  uint32_t count = 0;
  if (block.size() >= sizeof(count)) {
    std::memcpy(&count, block.data(), sizeof(count));
  }
  ET_CHECK_OR_RETURN_FALSE(
      block.size() >= sizeof(count) &&
          count == (block.size() - sizeof(count)) / sizeof(TensorPlace) &&
          (block.size() - sizeof(count)) % sizeof(TensorPlace) == 0,
      "the NPU's payload has a corrupted block %s",
      name);
  const void* const begin = block.data() + sizeof(count);
  places = {static_cast<const TensorPlace*>(begin), count};
  for (const TensorPlace& place : places) {
    uint32_t size = static_cast<uint32_t>(place.element_size);
    bool is_sound = place.element_size > 0 && place.region == 1 && place.offset >= 0;
    for (const int32_t length : place.shape) {
      is_sound = is_sound && length > 0 &&
          !__builtin_mul_overflow(size, static_cast<uint32_t>(length), &size);
    }
    const uint32_t offset = static_cast<uint32_t>(place.offset);
    ET_CHECK_OR_RETURN_FALSE(
        is_sound && offset <= scratch_size && size <= scratch_size - offset,
        "a tensor of the NPU's payload lies outside of its memory (%s)",
        name);
  }
  return true;
}

} // namespace

size_t size_of(const TensorPlace& place) {
  size_t size = static_cast<size_t>(place.element_size);
  for (const int32_t length : place.shape) {
    size *= static_cast<size_t>(length);
  }
  return size;
}

Error parse(Span<const uint8_t> data, Payload& payload) {
  ET_CHECK_OR_RETURN_ERROR(
      reinterpret_cast<uintptr_t>(data.data()) % kAlignment == 0,
      InvalidArgument,
      "the NPU's payload has to be %zu-byte aligned",
      kAlignment);
  Blocks blocks(data);
  Span<const uint8_t> nothing, commands, scratch, inputs, outputs;
  const bool is_whole = blocks.take("vela_bin_stream", nothing) &&
      blocks.take("cmd_data", commands) && blocks.take("weight_data", payload.weights) &&
      blocks.take("scratch_size", scratch) && blocks.take("inputs", inputs) &&
      blocks.take("outputs", outputs) && blocks.take("vela_end_stream", nothing);
  ET_CHECK_OR_RETURN_ERROR(
      is_whole && scratch.size() == sizeof(payload.scratch_size),
      DelegateInvalidCompatibility,
      "the NPU's payload is corrupted");
  std::memcpy(&payload.scratch_size, scratch.data(), sizeof(payload.scratch_size));
  // Places of tensors are signed, and who takes the memory rounds its size up.
  ET_CHECK_OR_RETURN_ERROR(
      payload.scratch_size <= INT32_MAX,
      DelegateInvalidCompatibility,
      "the NPU's payload asks for %" PRIu32 " bytes to work in: it is corrupted",
      payload.scratch_size);
  const bool is_sound = parse_commands(commands, payload) &&
      parse_places("inputs", inputs, payload.scratch_size, payload.inputs) &&
      parse_places("outputs", outputs, payload.scratch_size, payload.outputs);
  return is_sound ? Error::Ok : Error::DelegateInvalidCompatibility;
}

} // namespace torch_fusion::ethos_u
