// Payloads, whole and damaged.

#include "firmware/ethos_u/payload.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/tests/check.h"
#include "runtime/tests/log.h"

namespace torch_fusion::ethos_u {
namespace {

using executorch::runtime::Error;
using executorch::runtime::Span;
using testing::take_log;

using Words = std::vector<uint32_t>;

constexpr uint32_t kMagic = 0x31504F43;
constexpr uint32_t kScratchSize = 256;
const Words kCommands = {kMagic, 1, 0x1807, 0x10060000, 5, 5, 5, 3u << 16 | 2, 10, 11, 12};
// One tensor: its shape, size of an element, offset and region.
const Words kInputs = {1, 1, 1, 1, 1, 7, 9, 2, 64, 1};
const Words kOutputs = {1, 1, 1, 1, 1, 1, 16, 1, 240, 1};

/// Bytes at an address as the runtime gives them to a backend, with nothing behind them.
class Bytes final {
 public:
  void add(const char* name, const Words& words) {
    char block[32] = {};
    std::strncpy(block, name, 16);
    const uint32_t size = static_cast<uint32_t>(4 * words.size());
    std::memcpy(block + 16, &size, sizeof(size));
    data_.insert(data_.end(), block, block + sizeof(block));
    const auto* bytes = reinterpret_cast<const char*>(words.data());
    data_.insert(data_.end(), bytes, bytes + size);
    data_.resize((data_.size() + 15) / 16 * 16);
  }

  std::vector<char>& data() {
    return data_;
  }

 private:
  std::vector<char> data_;
};

Bytes make(
    const Words& commands = kCommands,
    const Words& inputs = kInputs,
    const Words& outputs = kOutputs,
    uint32_t scratch_size = kScratchSize) {
  Bytes bytes;
  bytes.add("vela_bin_stream", {});
  bytes.add("cmd_data", commands);
  bytes.add("weight_data", {1, 2, 3, 4, 5});
  bytes.add("scratch_size", {scratch_size});
  bytes.add("inputs", inputs);
  bytes.add("outputs", outputs);
  bytes.add("vela_end_stream", {});
  return bytes;
}

/// parse() on a copy that ends where its memory does, so that the sanitizers see what it reads.
Error parse_copy(const std::vector<char>& data, Payload& payload, size_t shift = 0) {
  static uint8_t* block = nullptr;
  std::free(block);
  const size_t size = (data.size() + shift + 15) / 16 * 16;
  block = static_cast<uint8_t*>(std::aligned_alloc(16, size == 0 ? 16 : size));
  std::copy(data.begin(), data.end(), block + shift);
  return parse({block + shift, data.size()}, payload);
}

void test_whole() {
  Payload payload;
  CHECK_ERROR(parse_copy(make().data(), payload), Error::Ok);
  CHECK(payload.config == 0x1807 && payload.architecture == 0x10060000);
  CHECK(payload.commands.size() == 3 && payload.commands[2] == 12);
  CHECK(payload.weights.size() == 20 && payload.weights[4] == 2);
  CHECK(payload.scratch_size == kScratchSize);
  CHECK(payload.inputs.size() == 1 && size_of(payload.inputs[0]) == 126);
  CHECK(payload.outputs.size() == 1 && payload.outputs[0].offset == 240);
}

void check_refused(
    Bytes bytes,
    const char* said,
    Error expected = Error::DelegateInvalidCompatibility) {
  take_log();
  Payload payload;
  CHECK_ERROR(parse_copy(bytes.data(), payload), expected);
  const std::string log = take_log();
  CHECK(log.find(said) != std::string::npos, "%s", log.c_str());
}

void test_refused() {
  Words other = kCommands;
  other[0] = 0x32504F43;
  check_refused(make(other), "of another format");
  Words cut = kCommands;
  cut[7] = 4u << 16 | 2;
  check_refused(make(cut), "cut off");
  check_refused(make({kMagic, 3u << 16 | 2, 10, 11, 12}), "don't say for which NPU");
  check_refused(make({kMagic, 5, 5}), "has no commands");
  check_refused(
      make({kMagic, 1, 0x1807, 0x10060000, 5, 3u << 16 | 2, 10, 11, 12}),
      "the NPU's commands begin 8 bytes behind a multiple of 16");

  const char* const kOutside = "lies outside of its memory";
  Words shifted = kInputs;
  shifted[8] = 131;
  check_refused(make(kCommands, shifted), kOutside);
  Words negative = kInputs;
  negative[8] = 0xFFFFFFF0;
  check_refused(make(kCommands, negative), kOutside);
  Words huge = kOutputs;
  huge[1] = huge[2] = 0x10000;
  check_refused(make(kCommands, kInputs, huge), kOutside);
  Words elsewhere = kOutputs;
  elsewhere[9] = 0;
  check_refused(make(kCommands, kInputs, elsewhere), kOutside);
  Words many = kInputs;
  many[0] = 0x1C71C71D;
  check_refused(make(kCommands, many), "corrupted block inputs");

  // Rounded up it would be nothing.
  check_refused(make(kCommands, kInputs, kOutputs, UINT32_MAX), "asks for 4294967295 bytes");

  Payload payload;
  CHECK_ERROR(parse_copy(make().data(), payload, 8), Error::InvalidArgument);
}

/// Whatever the bytes are, ranges that parse() accepts are in the memory that it names.
void test_damaged() {
  testing::set_quiet(true);
  const std::vector<char> whole = make().data();
  for (size_t length = 0; length < whole.size(); ++length) {
    Payload payload;
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    // The missing bytes may be the padding of the last block.
    CHECK(parse_copy(cut, payload) != Error::Ok || length >= whole.size() - 16);
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<char> damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    Payload payload;
    if (parse_copy(damaged, payload) != Error::Ok) {
      continue;
    }
    uint32_t sum = 0;
    for (const uint32_t word : payload.commands) {
      sum += word;
    }
    for (const uint8_t byte : payload.weights) {
      sum += byte;
    }
    for (const auto& places : {payload.inputs, payload.outputs}) {
      for (const TensorPlace& place : places) {
        CHECK(static_cast<size_t>(place.offset) + size_of(place) <= payload.scratch_size);
      }
    }
    CHECK(sum != 0);
  }
  testing::set_quiet(false);
}

} // namespace
} // namespace torch_fusion::ethos_u

int main() {
  using namespace torch_fusion::ethos_u;
  test_whole();
  test_refused();
  test_damaged();
  return 0;
}
