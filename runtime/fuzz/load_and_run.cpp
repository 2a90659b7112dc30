// Fuzz target: loads and runs bytes as a program, with all kernels.

#include <algorithm>
#include <cstdlib>

#include "runtime/testing/log.h"
#include "runtime/testing/program_runner.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using torch_fusion::testing::Block;
  using torch_fusion::testing::ProgramRunner;
  torch_fusion::testing::set_quiet(true);
  // A copy whose end the address sanitizer watches.
  Block block(size);
  std::copy_n(data, size, block.data());
  ProgramRunner runner(block.data(), block.size());
  if (runner.load() == executorch::runtime::Error::Ok) {
    static_cast<void>(runner.run());
  }
  // On a device the program is in flash.
  if (!std::equal(data, data + size, block.data())) {
    std::abort();
  }
  return 0;
}
