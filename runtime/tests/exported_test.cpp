// Loads and runs exported models with the kernels that this project has, compares their outputs
// with PyTorch's, and does the same with corrupted ones.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "runtime/tests/check.h"
#include "runtime/tests/log.h"
#include "runtime/tests/program_runner.h"

namespace torch_fusion {
namespace testing {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::Error;
using executorch::runtime::EValue;

std::string folder;

std::vector<float> read_expected(const std::string& name) {
  const std::vector<uint8_t> bytes = read_file(folder + "/" + name + ".output.bin");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void test_outputs(const std::string& name) {
  const std::vector<uint8_t> bytes = read_file(folder + "/" + name + ".pte");
  Block block(bytes.size());
  std::copy(bytes.begin(), bytes.end(), block.data());
  ProgramRunner runner(block.data(), block.size());
  CHECK_ERROR(runner.load(), Error::Ok);
  if (name == "softmax_dynamic") {
    // The program's sizes are the bounds; the expected output is that of two rows.
    float data[] = {-0.5f, -0.25f, 0.0f, 0.25f};
    int32_t sizes[] = {2, 2};
    uint8_t dim_order[] = {0, 1};
    TensorImpl impl(ScalarType::Float, 2, sizes, data, dim_order);
    CHECK_ERROR(runner.method().set_input(EValue(Tensor(&impl)), 0), Error::Ok);
    CHECK_ERROR(runner.method().execute(), Error::Ok);
    sizes[0] = 9;
    float more[18] = {};
    TensorImpl too_large(ScalarType::Float, 2, sizes, more, dim_order);
    CHECK_ERROR(runner.method().set_input(EValue(Tensor(&too_large)), 0), Error::InvalidArgument);
  } else {
    CHECK_ERROR(runner.run(), Error::Ok);
  }
  const std::vector<float> actual = runner.output();
  const std::vector<float> expected = read_expected(name);
  CHECK(actual.size() == expected.size(), "%s: %zu elements", name.c_str(), actual.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CHECK(
        std::fabs(actual[i] - expected[i]) < 1e-5f,
        "%s: [%zu] is %f, expected %f",
        name.c_str(),
        i,
        static_cast<double>(actual[i]),
        static_cast<double>(expected[i]));
  }
}

/// Every flip of one bit in each byte, another one in each.
void test_flips(const std::string& name) {
  std::vector<uint8_t> bytes = read_file(folder + "/" + name + ".pte");
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 1u << i % 8;
    Block block(bytes.size());
    std::copy(bytes.begin(), bytes.end(), block.data());
    ProgramRunner runner(block.data(), block.size());
    if (runner.load() == Error::Ok) {
      static_cast<void>(runner.run());
    }
    CHECK(std::equal(bytes.begin(), bytes.end(), block.data()), "the program was written to");
    bytes[i] ^= 1u << i % 8;
  }
}

} // namespace
} // namespace testing
} // namespace torch_fusion

int main(int, char** argv) {
  using namespace torch_fusion::testing;
  folder = argv[1];
  for (const char* name : {"softmax", "softmax_dynamic", "add", "add_unplanned", "mlp", "cnn"}) {
    set_quiet(false);
    test_outputs(name);
    set_quiet(true);
    test_flips(name);
  }
  return 0;
}
