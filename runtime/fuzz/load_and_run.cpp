// Fuzz target: a program in read-only memory is loaded with all kernels, and kernels and backend of
// the runtime's tests, and executed three times with inputs set anew. Whatever the program is,
// there is an error with a name or an output that can be read, and no input moves by execution.
//
// TORCH_FUSION_FUZZ_SEEDS names the folder that make_seeds.py wrote. TORCH_FUSION_FUZZ_COUNTS may
// name a file of 24 bytes for each seed, in which programs are counted: those that came from the
// seed, those of them that loaded, and those that executed.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <executorch/runtime/backend/interface.h>

#include "firmware/ethos_u/backend.h"
#include "firmware/ethos_u/driver.h"
#include "firmware/ethos_u/registers.h"
#include "runtime/executor/execution_limit.h"
#include "runtime/fuzz/mutator.h"
#include "runtime/fuzz/read_only.h"
#include "runtime/kernel/constant_data.h"
#include "runtime/tests/check.h"
#include "runtime/tests/log.h"
#include "runtime/tests/program_runner.h"
#include "runtime/tests/test_operators.h"

namespace {

using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Method;
using torch_fusion::fuzz::Mutator;
using torch_fusion::fuzz::ReadOnlyCopy;
using torch_fusion::fuzz::Seed;
using torch_fusion::testing::ProgramRunner;

constexpr int kExecutions = 3;

/// More than any seed runs in one execution, and so few that a loop over a large network ends in
/// time.
constexpr uint32_t kInstructionLimit = 1024;

/// Reads every byte, so that the sanitizers see where memory ends.
void read_all(const void* data, size_t size) {
  volatile uint8_t last = 0;
  for (size_t i = 0; i < size; ++i) {
    last = static_cast<const uint8_t*>(data)[i];
  }
  static_cast<void>(last);
}

/// Takes any delegate of `SomeBackend`: reads all that the runtime hands to it, and writes all of
/// the last argument, which is the output of the programs that make_programs.py writes.
class Backend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override {
    return true;
  }

  executorch::runtime::Result<executorch::runtime::DelegateHandle*> init(
      executorch::runtime::BackendInitContext& context,
      executorch::runtime::FreeableBuffer* processed,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> specs) const override {
    read_all(processed->data(), processed->size());
    for (const auto& spec : specs) {
      read_all(spec.key, std::strlen(spec.key));
      read_all(spec.value.buffer, spec.value.nbytes);
    }
    void* const handle = context.get_runtime_allocator()->allocate(1);
    if (handle == nullptr) {
      return Error::MemoryAllocationFailed;
    }
    return handle;
  }

  Error execute(
      executorch::runtime::BackendExecutionContext&,
      executorch::runtime::DelegateHandle*,
      executorch::runtime::Span<EValue*> args) const override {
    for (const EValue* arg : args) {
      if (arg->isTensor() && arg->toTensor().const_data_ptr() != nullptr) {
        read_all(arg->toTensor().const_data_ptr(), arg->toTensor().nbytes());
      }
    }
    if (args.empty() || !args[args.size() - 1]->isTensor()) {
      return Error::InvalidArgument;
    }
    Tensor& out = args[args.size() - 1]->toTensor();
    if (out.const_data_ptr() == nullptr ||
        executorch::runtime::internal::is_constant_data(out.const_data_ptr())) {
      return Error::InvalidArgument;
    }
    std::memset(out.mutable_data_ptr(), 1, out.nbytes());
    return Error::Ok;
  }
};

Backend backend;

struct Counts {
  uint64_t programs;
  uint64_t loaded;
  uint64_t executed;
};

Mutator* mutator = nullptr;
Counts* counts = nullptr;

/// Maps the file, so that it contains the counts however the fuzzer ends.
Counts* map_counts(const char* path, size_t seeds) {
  const int file = open(path, O_RDWR);
  const size_t size = seeds * sizeof(Counts);
  void* const memory =
      file < 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    std::perror(path);
    std::abort();
  }
  close(file);
  return static_cast<Counts*>(memory);
}

/// Returns the address of each input's elements; nullptr for inputs that are not tensors. Empty if
/// the method doesn't tell.
std::vector<const void*> input_memory(Method& method) {
  std::vector<EValue> inputs(method.inputs_size());
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const Error error = method.get_inputs(inputs.data(), inputs.size());
#pragma GCC diagnostic pop
  if (error != Error::Ok) {
    return {};
  }
  std::vector<const void*> memory;
  for (const EValue& input : inputs) {
    memory.push_back(input.isTensor() ? input.toTensor().const_data_ptr() : nullptr);
  }
  return memory;
}

/// Reads every byte of the outputs, as an application does.
void read_outputs(Method& method) {
  std::vector<EValue> outputs(method.outputs_size());
  if (method.get_outputs(outputs.data(), outputs.size()) != Error::Ok) {
    return;
  }
  for (const EValue& output : outputs) {
    if (output.isTensor()) {
      read_all(output.toTensor().const_data_ptr(), output.toTensor().nbytes());
    }
  }
}

/// @returns Whether the program was executed; `is_loaded` says if it was loaded.
bool load_and_run(const uint8_t* data, size_t size, bool& is_loaded) {
  ProgramRunner runner(data, size);
  is_loaded = runner.load() == Error::Ok;
  for (int i = 0; i < kExecutions; ++i) {
    if (!is_loaded || runner.set_inputs() != Error::Ok || runner.set_outputs() != Error::Ok) {
      return false;
    }
    const std::vector<const void*> before = input_memory(runner.method());
    if (runner.method().execute() != Error::Ok) {
      return false;
    }
    CHECK(input_memory(runner.method()) == before, "an input is elsewhere after the execution");
    read_outputs(runner.method());
  }
  return true;
}

} // namespace

// An Ethos-U55 with 128 multipliers that ends at once and computes nothing.
const torch_fusion::ethos_u::Device torch_fusion::ethos_u::kDevice =
    {0, 0, 0, 0, {0, 0, 0, 0}, kPrivileged, 1, 1, 0, 0};

extern "C" {
void ethos_u_write(uintptr_t, uint32_t, uint32_t) {}
uint32_t ethos_u_read(uintptr_t, uint32_t offset) {
  using torch_fusion::ethos_u::Register;
  switch (static_cast<Register>(offset)) {
    case Register::kId:
      return 0x10060000;
    case Register::kConfig:
      return 0x00001807;
    case Register::kProtection:
      return torch_fusion::ethos_u::kPrivileged;
    case Register::kStatus:
      return torch_fusion::ethos_u::kEndReached;
    default:
      return 0;
  }
}
void ethos_u_barrier(void) {}
void ethos_u_flush(const void* address, size_t size) {
  read_all(address, size);
}
void ethos_u_invalidate(const void* address, size_t size) {
  read_all(address, size);
}
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  torch_fusion::testing::set_quiet(true);
  const char* const folder = std::getenv("TORCH_FUSION_FUZZ_SEEDS");
  CHECK(folder != nullptr, "TORCH_FUSION_FUZZ_SEEDS is not set");
  mutator = new Mutator(folder);
  torch_fusion::set_instruction_limit(kInstructionLimit);
  const Error error =
      executorch::runtime::register_kernels({torch_fusion::testing::kTestOperators});
  CHECK(error == Error::Ok, "the kernels of the tests cannot be registered");
  CHECK(
      executorch::runtime::register_backend({"SomeBackend", &backend}) == Error::Ok &&
          executorch::runtime::register_backend(
              {"EthosUBackend", &torch_fusion::ethos_u::backend}) == Error::Ok,
      "the backends cannot be registered");
  if (const char* const path = std::getenv("TORCH_FUSION_FUZZ_COUNTS")) {
    counts = map_counts(path, mutator->seeds().size());
  }
  return 0;
}

extern "C" size_t
LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int number) {
  std::minstd_rand random(number);
  random.discard(2);
  size_t from = mutator->seed_of(data, size);
  if (from == mutator->seeds().size() || random() % 2 == 0) {
    from = random() % mutator->seeds().size();
    const std::vector<uint8_t>& bytes = mutator->seeds()[from].bytes;
    if (bytes.size() > max_size) {
      return LLVMFuzzerMutate(data, size, max_size);
    }
    size = bytes.size();
    std::copy(bytes.begin(), bytes.end(), data);
  }
  do {
    mutator->mutate(data, mutator->seeds()[from], random);
  } while (random() % 3 == 0);
  return size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(
    const uint8_t* one,
    size_t one_size,
    const uint8_t* other,
    size_t other_size,
    uint8_t* out,
    size_t out_max_size,
    unsigned int number) {
  const size_t from = mutator->seed_of(one, one_size);
  if (from == mutator->seeds().size() || from != mutator->seed_of(other, other_size) ||
      one_size > out_max_size) {
    return 0;
  }
  std::minstd_rand random(number);
  std::copy_n(one, one_size, out);
  mutator->cross_over(out, other, mutator->seeds()[from], random);
  return one_size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t from = mutator->seed_of(data, size);
  const bool has_trailer = from < mutator->seeds().size();
  const ReadOnlyCopy program(data, has_trailer ? size - Mutator::kTrailer : size);
  bool is_loaded = false;
  const bool is_executed =
      load_and_run(program.data(), has_trailer ? size - Mutator::kTrailer : size, is_loaded);
  if (counts != nullptr && has_trailer) {
    counts[from].programs += 1;
    counts[from].loaded += is_loaded ? 1 : 0;
    counts[from].executed += is_executed ? 1 : 0;
  }
  return 0;
}
