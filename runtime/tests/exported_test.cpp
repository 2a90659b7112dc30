// Loads and runs exported models with the kernels that this project has, compares their outputs
// with PyTorch's, and does the same with corrupted ones.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>

#include "runtime/tests/check.h"
#include "runtime/tests/log.h"
#include "runtime/tests/program_runner.h"

namespace torch_fusion::testing {
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

/// A packed layer with invalid shifts is refused when it is loaded, because kernels compute with
/// them unchecked.
void test_packed_layer(const std::string& path) {
  std::vector<uint8_t> bytes = read_file(path);
  // The heads of its layers, of which the first one has a column: version, arrangement for DSP, a
  // linear layer, not wide; then its input channels, and that its sums are short.
  const uint8_t head[] = {4, 3, 3, 0, 1, 0, 1, 0};
  const auto layer = std::search(bytes.begin(), bytes.end(), std::begin(head), std::end(head));
  CHECK(layer != bytes.end());
  const size_t channels = layer[8];
  // Biases and four multipliers are before them.
  uint8_t& shift = layer[36 + 4 * static_cast<ptrdiff_t>((channels + 1) / 2 * 2 + 4)];
  const uint8_t good = shift;
  for (const uint8_t value : {good, uint8_t{32}, uint8_t{127}, uint8_t{255}, uint8_t{128}}) {
    shift = value;
    Block block(bytes.size());
    std::copy(bytes.begin(), bytes.end(), block.data());
    ProgramRunner runner(block.data(), block.size());
    take_log();
    CHECK_ERROR(runner.load(), value == good ? Error::Ok : Error::InvalidProgram);
    const std::string log = take_log();
    CHECK(
        value == good || log.find("of operator torch_fusion::") != std::string::npos,
        "%s",
        log.c_str());
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
} // namespace torch_fusion::testing

int main(int argc, char** argv) {
  using namespace torch_fusion::testing;
  folder = argv[1];
  for (int i = 2; i < argc; ++i) {
    test_packed_layer(argv[i]);
  }
  for (const char* name : {"softmax", "softmax_dynamic", "add", "add_unplanned", "mlp", "cnn"}) {
    set_quiet(false);
    test_outputs(name);
    set_quiet(true);
    test_flips(name);
  }
  return 0;
}
