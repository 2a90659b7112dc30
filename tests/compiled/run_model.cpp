/// Runs a compiled model on a file of inputs: `run_model INPUTS OUTPUTS COUNT`, raw samples one
/// after the other: those of one instance, then those of another one that a second thread runs on
/// the same samples meanwhile. Before that it checks the C interface's statuses for wrong calls.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include MODEL_HEADER

#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
#define MODEL(function) JOIN(MODEL_NAME, function)

namespace {

using Model = MODEL(_model_t);

Model model;
Model other;

/// The one that a thread runs.
thread_local Model* running = nullptr;

/// Calls of the hook since the last inference began, and how often it has ended.
thread_local unsigned long layers = 0;
thread_local unsigned long ended = 0;

void expect(torch_fusion_status expected, torch_fusion_status status, const char* what) {
  if (status != expected) {
    std::printf(
        "%s: %d instead of %d\n", what, static_cast<int>(status), static_cast<int>(expected));
    std::exit(1);
  }
}

/// There is no input and no output of null, nor before the initialization or during an inference.
void expect_nothing(Model* instance) {
  if (MODEL(_input)(instance, 0) != nullptr || MODEL(_input_size)(instance, 0) != 0 ||
      MODEL(_output)(instance, 0) != nullptr || MODEL(_output_size)(instance, 0) != 0 ||
      MODEL(_output_shape)(instance, 0) != nullptr) {
    expect(TORCH_FUSION_INVALID_STATE, TORCH_FUSION_OK, "an instance that is not ready");
  }
}

void hold_refusals() {
  uint8_t byte = 0;
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_run)(nullptr), "run of null");
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_reset)(nullptr), "reset of null");
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_set_input)(nullptr, 0, &byte, 1), "input of null");
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_get_output)(nullptr, 0, &byte, 1), "output of null");
  expect_nothing(nullptr);
  expect_nothing(&model);
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_run)(&model), "run before init");
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_reset)(&model), "reset before init");
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_set_input)(&model, 0, &byte, 1), "input before init");
  expect(TORCH_FUSION_MEMORY_TOO_SMALL, MODEL(_init)(nullptr, sizeof(model)), "null");
  expect(
      TORCH_FUSION_MEMORY_TOO_SMALL, MODEL(_init)(&model, sizeof(model) - 1), "a byte too little");
  auto* const misaligned = reinterpret_cast<Model*>(reinterpret_cast<uintptr_t>(&model) + 8);
  expect(TORCH_FUSION_MEMORY_TOO_SMALL, MODEL(_init)(misaligned, sizeof(model)), "misaligned");
  expect(TORCH_FUSION_INVALID_STATE, MODEL(_run)(&model), "run after an init that failed");
  expect(TORCH_FUSION_OK, MODEL(_init)(&model, sizeof(model)), "init");
  expect(TORCH_FUSION_OK, MODEL(_init)(&other, sizeof(other)), "init of another");
  const size_t size = MODEL(_input_size)(&model, 0);
  const std::vector<uint8_t> data(size + 1);
  expect(
      TORCH_FUSION_INVALID_ARGUMENT,
      MODEL(_set_input)(&model, 0, data.data(), size + 1),
      "an input of another size");
  expect(
      TORCH_FUSION_INVALID_ARGUMENT,
      MODEL(_set_input)(&model, 99, data.data(), size),
      "an input that there isn't");
  expect(
      TORCH_FUSION_INVALID_ARGUMENT,
      MODEL(_set_input)(&model, 0, nullptr, size),
      "an input of null");
  expect(
      TORCH_FUSION_INVALID_ARGUMENT,
      MODEL(_set_input)(&model, 0, &model, size),
      "an input from the instance");
  expect(
      TORCH_FUSION_INVALID_ARGUMENT,
      MODEL(_get_output)(&model, 0, &model, MODEL(_output_size)(&model, 0)),
      "an output into the instance");
  if (MODEL(_output)(&model, 99) != nullptr || MODEL(_output_size)(&model, 99) != 0 ||
      MODEL(_output_shape)(&model, 99) != nullptr) {
    expect(TORCH_FUSION_INVALID_ARGUMENT, TORCH_FUSION_OK, "an output that there isn't");
  }
}

} // namespace

/// The compiled model calls this before each layer, and with a null name after the last one.
extern "C" void on_layer(const void* instance, int layer, const char* name) {
  if (instance != running || layer < 0) {
    std::printf("the hook is called for another instance, or layer %d\n", layer);
    std::exit(1);
  }
  if (layers == 0) {
    uint8_t byte = 0;
    expect(TORCH_FUSION_INVALID_STATE, MODEL(_reset)(running), "reset during a run");
    expect(TORCH_FUSION_INVALID_STATE, MODEL(_run)(running), "run during a run");
    expect(TORCH_FUSION_INVALID_STATE, MODEL(_set_input)(running, 0, &byte, 1), "input during it");
    expect_nothing(running);
  }
  if (name == nullptr) {
    ++ended;
  } else {
    ++layers;
  }
}

/// Sets the inputs of an instance to the next sample of a file.
void set(Model& instance, std::FILE* inputs) {
  // An image whose rows an inference reads has to stay until then.
  thread_local std::vector<uint8_t> data;
  for (size_t i = 0; MODEL(_input_size)(&instance, i) != 0; ++i) {
    data.resize(MODEL(_input_size)(&instance, i));
    if (std::fread(data.data(), 1, data.size(), inputs) != data.size()) {
      std::printf("the inputs are too short\n");
      std::exit(1);
    }
    expect(TORCH_FUSION_OK, MODEL(_set_input)(&instance, i, data.data(), data.size()), "an input");
  }
}

void run(Model& instance) {
  layers = ended = 0;
  running = &instance;
  expect(TORCH_FUSION_OK, MODEL(_run)(&instance), "run");
  if (layers == 0 || ended != 1) {
    std::printf("the hook saw %lu layers, and %lu ends\n", layers, ended);
    std::exit(1);
  }
}

/// The outputs' bytes.
std::vector<uint8_t> get(const Model& instance) {
  std::vector<uint8_t> result;
  for (size_t i = 0; MODEL(_output)(&instance, i) != nullptr; ++i) {
    const auto* const output = static_cast<const uint8_t*>(MODEL(_output)(&instance, i));
    result.insert(result.end(), output, output + MODEL(_output_size)(&instance, i));
  }
  return result;
}

/// The outputs of an instance for each sample of a file.
std::vector<std::vector<uint8_t>>
run_all(Model& instance, const char* file, unsigned long samples) {
  std::vector<std::vector<uint8_t>> results;
  std::FILE* const inputs = std::fopen(file, "rb");
  for (unsigned long sample = 0; sample < samples; ++sample) {
    set(instance, inputs);
    run(instance);
    results.push_back(get(instance));
  }
  std::fclose(inputs);
  return results;
}

int main(int, char** arguments) {
  // An instance may be in any memory.
  std::memset(static_cast<void*>(&model), 0xa7, sizeof(model));
  hold_refusals();
  std::FILE* const outputs = std::fopen(arguments[2], "wb");
  const auto samples = std::strtoul(arguments[3], nullptr, 10);
  std::vector<std::vector<uint8_t>> results_of_other;
  std::thread thread([&] { results_of_other = run_all(other, arguments[1], samples); });
  const auto results = run_all(model, arguments[1], samples);
  thread.join();
  for (const auto& each : {results, results_of_other}) {
    for (const std::vector<uint8_t>& result : each) {
      std::fwrite(result.data(), 1, result.size(), outputs);
    }
  }
  expect(TORCH_FUSION_OK, MODEL(_reset)(&model), "reset");
  if (run_all(model, arguments[1], samples) != results) {
    std::printf("after a reset the same samples give something else\n");
    return 1;
  }
  return std::fclose(outputs) == 0 ? 0 : 1;
}
