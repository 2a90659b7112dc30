// Tells whether a device takes payloads: for tests, which compare it with the model of the NPU.
//
//   check_payloads FILE
//
// The file has payloads, each behind its length and the size of the NPU's own memory (uint32_t). A
// line for each: "sound", "refused" or "no payload" for one that parse() refuses.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "firmware/ethos_u/commands.h"
#include "firmware/ethos_u/payload.h"

namespace torch_fusion::ethos_u {
namespace {

using executorch::runtime::Error;

const char* judge(const char* bytes, size_t size, uint32_t cache_size) {
  struct Free {
    void operator()(void* block) const {
      std::free(block);
    }
  };
  // It ends where its memory does, so that the sanitizers see what is read.
  const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
  const std::unique_ptr<void, Free> block(std::aligned_alloc(kAlignment, padded));
  auto* const data = static_cast<uint8_t*>(block.get());
  std::copy(bytes, bytes + size, data);
  Payload payload;
  if (parse({data, size}, payload) != Error::Ok) {
    return "no payload";
  }
  return check_commands(payload, cache_size) == Error::Ok ? "sound" : "refused";
}

} // namespace
} // namespace torch_fusion::ethos_u

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "", std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "usage: check_payloads FILE\n");
    return 2;
  }
  const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  struct Header {
    uint32_t size;
    uint32_t cache_size;
  };
  for (size_t at = 0; at + sizeof(Header) <= content.size();) {
    Header header;
    std::copy_n(content.data() + at, sizeof(header), reinterpret_cast<char*>(&header));
    at += sizeof(header);
    const uint32_t size = header.size;
    if (size > content.size() - at) {
      std::fprintf(stderr, "the last payload is cut off\n");
      return 2;
    }
    std::puts(torch_fusion::ethos_u::judge(content.data() + at, size, header.cache_size));
    at += size;
  }
  return 0;
}
