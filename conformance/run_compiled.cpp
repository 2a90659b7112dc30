/// Runs compiled calls of operators: `run_compiled INPUTS OUTPUTS`. INPUTS has, in the order of the
/// cases' numbers, for each one the count of its inputs and each input's size and bytes; OUTPUTS
/// gets for each its status, and if that is 0 the count of its outputs and each one's size and
/// bytes. All numbers have 32 bits.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "conformance/compiled_case.h"

/// The generated sources have these, in order.
extern const CompiledCases* const kCompiledCases[];

namespace {

std::FILE* inputs;
std::FILE* outputs;

void read(void* data, size_t size) {
  if (std::fread(data, 1, size, inputs) != size) {
    std::fprintf(stderr, "the inputs are too short\n");
    std::exit(2);
  }
}

uint32_t read_number() {
  uint32_t number;
  read(&number, sizeof(number));
  return number;
}

void write_number(size_t number) {
  const auto word = static_cast<uint32_t>(number);
  std::fwrite(&word, sizeof(word), 1, outputs);
}

torch_fusion_status run(const CompiledCase& given, void* model) {
  torch_fusion_status status = given.init(model, given.size);
  const uint32_t count = read_number();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t size = read_number();
    // An empty tensor gets a byte, so that its pointer isn't null.
    std::vector<uint8_t> data(size + 1);
    read(data.data(), size);
    if (status == TORCH_FUSION_OK) {
      status = given.set_input(model, i, data.data(), size);
    }
  }
  return status == TORCH_FUSION_OK ? given.run(model) : status;
}

void run_case(const CompiledCase& given) {
  // Exactly as large as the model, so that the address sanitizer sees any other access.
  const std::unique_ptr<void, decltype(&std::free)> model(
      std::aligned_alloc(TORCH_FUSION_ALIGNMENT, given.size), &std::free);
  const torch_fusion_status status = run(given, model.get());
  write_number(status);
  if (status != TORCH_FUSION_OK) {
    return;
  }
  size_t count = 0;
  while (given.output(model.get(), count) != nullptr) {
    ++count;
  }
  write_number(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t size = given.output_size(model.get(), i);
    write_number(size);
    std::fwrite(given.output(model.get(), i), 1, size, outputs);
  }
}

} // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: run_compiled INPUTS OUTPUTS\n");
    return 2;
  }
  inputs = std::fopen(arguments[1], "rb");
  outputs = std::fopen(arguments[2], "wb");
  if (inputs == nullptr || outputs == nullptr) {
    std::perror("run_compiled");
    return 2;
  }
  for (const CompiledCases* const* cases = kCompiledCases; *cases != nullptr; ++cases) {
    for (size_t i = 0; i < (*cases)->count; ++i) {
      run_case((*cases)->cases[i]);
    }
  }
  std::fclose(inputs);
  return std::fclose(outputs) == 0 ? 0 : 1;
}
