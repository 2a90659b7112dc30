// Programs with delegates, and a backend that is registered when the test runs.

#include <algorithm>
#include <cstring>
#include <string>

#include <executorch/runtime/backend/interface.h>

#include "runtime/kernel/constant_data.h"
#include "runtime/tests/check.h"
#include "runtime/tests/log.h"
#include "runtime/tests/program_runner.h"

namespace torch_fusion::testing {
namespace {

using executorch::runtime::ArrayRef;

/// Adds a number, which a compile spec gives, to two floats.
class AddBackend final : public BackendInterface {
 public:
  bool is_available() const override {
    return available;
  }

  Result<DelegateHandle*> init(
      BackendInitContext& context,
      FreeableBuffer* processed,
      ArrayRef<CompileSpec> specs) const override {
    CHECK(std::strcmp(context.get_method_name(), "forward") == 0);
    CHECK(processed->size() == 4 && std::memcmp(processed->data(), "blob", 4) == 0);
    CHECK(specs.size() == 2 && std::strcmp(specs[1].key, "by") == 0);
    CHECK(specs[1].value.nbytes == sizeof(float));
    if (refuses) {
      return Error::DelegateInvalidCompatibility;
    }
    auto* const by = static_cast<float*>(context.get_runtime_allocator()->allocate(sizeof(float)));
    CHECK(by != nullptr);
    std::memcpy(by, specs[1].value.buffer, sizeof(float));
    ++living;
    return by;
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue*> args)
      const override {
    if (args.size() != 2) {
      return Error::InvalidArgument;
    }
    const Tensor& in = args[0]->toTensor();
    Tensor& out = args[1]->toTensor();
    if (executorch::runtime::internal::is_constant_data(out.const_data_ptr())) {
      return Error::InvalidArgument;
    }
    CHECK(context.allocate(16) != nullptr);
    for (int i = 0; i < 2; ++i) {
      out.mutable_data_ptr<float>()[i] =
          in.const_data_ptr<float>()[i] + *static_cast<const float*>(handle);
    }
    return Error::Ok;
  }

  void destroy(DelegateHandle*) const override {
    --living;
  }

  bool available = true;
  bool refuses = false;
  mutable int living = 0;
};

AddBackend backend;
std::string folder;

std::vector<uint8_t> read_program(const char* name) {
  return read_file(folder + "/" + name + ".pte");
}

struct Test {
  explicit Test(const std::vector<uint8_t>& bytes) {
    block.emplace(bytes.size());
    std::memcpy(block->data(), bytes.data(), bytes.size());
    runner.emplace(block->data(), block->size());
  }

  std::optional<Block> block;
  std::optional<ProgramRunner> runner;
};

void test_executes() {
  Test test(read_program("delegate"));
  CHECK_ERROR(test.runner->load(), Error::Ok);
  for (int i = 0; i < 2; ++i) {
    // The inputs are -0.5 and -0.25.
    CHECK_ERROR(test.runner->run(), Error::Ok);
    const std::vector<float> output = test.runner->output();
    CHECK(output.size() == 2 && output[0] == 1.0f && output[1] == 1.25f);
  }
  CHECK(backend.living == 1);
  test.runner.reset();
  CHECK(backend.living == 0);
}

/// Returns the program "delegate" whose call has the arguments 0 and 99.
std::vector<uint8_t> corrupted_argument() {
  std::vector<uint8_t> bytes = read_program("delegate");
  const uint32_t arguments[] = {2, 0, 1};
  const auto* first = reinterpret_cast<const uint8_t*>(arguments);
  const auto found = std::search(bytes.begin(), bytes.end(), first, first + sizeof(arguments));
  CHECK(found != bytes.end());
  found[8] = 99;
  return bytes;
}

void check_refused(std::vector<uint8_t> bytes, Error expected, const char* message) {
  Test test(std::move(bytes));
  take_log();
  Error error = test.runner->load();
  if (error == Error::Ok) {
    error = test.runner->run();
  }
  CHECK_ERROR(error, expected);
  const std::string log = take_log();
  CHECK(log.find(message) != std::string::npos, "%s", log.c_str());
  test.runner.reset();
  CHECK(backend.living == 0, "%d delegates are left after: %s", backend.living, log.c_str());
}

void check_refused(const char* name, Error expected, const char* message) {
  check_refused(read_program(name), expected, message);
}

void test_refused() {
  check_refused("delegate_missing", Error::NotFound, "the image has no backend OtherBackend");
  check_refused("delegate_index", Error::InvalidProgram, "calls delegate 1 of 1");
  check_refused("delegate_data", Error::NotFound, "no inline delegate data 1");
  check_refused(corrupted_argument(), Error::InvalidProgram, "refers to value 99 of 3");
  check_refused("delegate_arguments", Error::InvalidArgument, "delegate 0");
  check_refused("delegate_constant", Error::InvalidArgument, "delegate 0");
  backend.available = false;
  check_refused("delegate", Error::NotSupported, "SomeBackend is not available");
  backend.available = true;
  backend.refuses = true;
  check_refused("delegate", Error::DelegateInvalidCompatibility, "SomeBackend refuses a delegate");
  backend.refuses = false;
}

void test_registry() {
  using namespace executorch::runtime;
  CHECK(get_num_registered_backends() == 1);
  CHECK(std::strcmp(*get_backend_name(0), "SomeBackend") == 0);
  CHECK(get_backend_name(1).error() == Error::InvalidArgument);
  CHECK(get_backend_class("SomeBackend") == &backend && get_backend_class("Some") == nullptr);
  CHECK_ERROR(register_backend({"SomeBackend", &backend}), Error::InvalidArgument);
  CHECK_ERROR(register_backend({"Nothing", nullptr}), Error::InvalidArgument);
}

} // namespace
} // namespace torch_fusion::testing

int main(int, char** argv) {
  using namespace torch_fusion::testing;
  folder = argv[1];
  CHECK_ERROR(
      executorch::runtime::register_backend({"SomeBackend", &backend}),
      executorch::runtime::Error::Ok);
  test_executes();
  test_refused();
  test_registry();
  return 0;
}
