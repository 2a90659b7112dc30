// Loads and runs programs on the host: valid ones, and ones that are refused by name.

#include <cmath>
#include <cstring>
#include <string>

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/program.h>

#include "runtime/executor/execution_limit.h"
#include "runtime/tests/check.h"
#include "runtime/tests/log.h"
#include "runtime/tests/program_runner.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace torch_fusion::testing {
namespace {

std::string folder;

/// A program of make_programs.py and its runner.
struct Test {
  explicit Test(const std::string& program_name)
      : name(program_name), bytes(read_file(folder + "/" + name + ".pte")) {
    block.emplace(bytes.size());
    std::memcpy(block->data(), bytes.data(), bytes.size());
    runner.emplace(block->data(), block->size());
  }

  /// A number of the program's memory plan.
  size_t planned(const char* key) const {
    const std::vector<uint8_t> json = read_file(folder + "/" + name + ".plan.json");
    const std::string text(json.begin(), json.end());
    const size_t place = text.find("\"" + std::string(key) + "\": ");
    CHECK(place != std::string::npos, "%s", key);
    return std::stoul(text.substr(place + std::strlen(key) + 4));
  }

  std::string name;
  std::vector<uint8_t> bytes;
  std::optional<Block> block;
  std::optional<ProgramRunner> runner;
};

void check_output(ProgramRunner& runner, std::vector<float> expected) {
  const std::vector<float> actual = runner.output();
  CHECK(
      actual.size() == expected.size(),
      "%zu elements, expected %zu",
      actual.size(),
      expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CHECK(
        std::fabs(actual[i] - expected[i]) < 1e-5f,
        "[%zu] is %f, expected %f",
        i,
        double(actual[i]),
        double(expected[i]));
  }
}

void check_runs(const char* name, std::vector<float> expected) {
  Test test(name);
  CHECK_ERROR(test.runner->load(), Error::Ok);
  CHECK_ERROR(test.runner->run(), Error::Ok);
  check_output(*test.runner, expected);
  // It runs again, from the same state.
  CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
  CHECK_ERROR(test.runner->method().execute(), Error::Ok);
  check_output(*test.runner, expected);
}

void check_refused(const char* name, Error expected, const char* message) {
  Test test(name);
  take_log();
  Error error = test.runner->load();
  if (error == Error::Ok) {
    error = test.runner->run();
  }
  CHECK_ERROR(error, expected);
  const std::string log = take_log();
  CHECK(
      log.find(message) != std::string::npos,
      "%s: no \"%s\" in the log:\n%s",
      name,
      message,
      log.c_str());
}

void test_instructions() {
  // The inputs are -0.5 and -0.25.
  check_runs("increment", {0.5f, 0.75f});
  check_runs("constant", {11, 21});
  check_runs("inline_constant", {11, 21});
  check_runs("loop", {4.5f, 4.75f});
  check_runs("move", {-0.5f, -0.25f});
  check_runs("move_tensor", {0.5f, 0.75f});
  check_runs("view", {0.5f, 0.75f});
  check_runs("number", {0.5f, 0.75f});
  check_runs("chains", {0.5f, 0.75f});
  check_runs("lists", {1, 13});
}

void test_refused() {
  check_refused("delegate", Error::NotFound, "the image has no backend SomeBackend");
  check_refused("external", Error::NotSupported, "tensor weight is stored outside the program");
  check_refused("unbounded", Error::NotSupported, "unbounded dynamic shape");
  check_refused("state_index", Error::NotFound, "mutable data segment 0 has no tensor 2");
  check_refused("state_segment", Error::NotFound, "mutable data segment 1 has no tensor 1");
  check_refused("state_size", Error::InvalidProgram, "initial state 1 lies outside its segment");
  check_refused(
      "missing_operator", Error::OperatorMissing, "no kernel for operator test::unwritten.out");
  check_refused("constant_output", Error::InvalidProgram, "is a constant");
  check_refused("free", Error::InvalidState, "without memory");
  check_refused("free_number", Error::InvalidProgram, "no tensor");
  check_refused("endless", Error::InvalidProgram, "does not end");
  check_refused("jump_outside", Error::InvalidProgram, "0 jumps to instruction 9 of 1");
  check_refused("moved_constant_output", Error::InvalidProgram, "is a constant");
  for (const char* name : {"move_number", "move_dtype"}) {
    check_refused(name, Error::InvalidProgram, "moves what is no such tensor to a tensor");
  }
  // Tensors stay tensors after each execution.
  for (const char* name : {"number_as_input", "number_as_output"}) {
    check_refused(name, Error::InvalidProgram, "it makes a tensor, value ");
  }
  for (const char* name :
       {"move_to_input",
        "number_as_number_input",
        "move_to_constant",
        "free_input",
        "free_constant",
        "free_of_moved",
        "view_as_input",
        "view_as_constant",
        "view_of_moved",
        "view_of_null"}) {
    Test test(name);
    take_log();
    CHECK_ERROR(test.runner->load(), Error::InvalidProgram);
    const std::string log = take_log();
    CHECK(log.find("changes what must stay") != std::string::npos, "%s: %s", name, log.c_str());
  }
  check_refused("huge_empty_tensor", Error::InvalidProgram, "other sizes that are too large");
  check_refused("huge_tensor", Error::InvalidProgram, "too large");
  check_refused("negative_size", Error::InvalidProgram, "negative");
  check_refused("outside_planned", Error::MemoryAllocationFailed, "for memory_id 0");
  check_refused("misaligned_plan", Error::InvalidProgram, "misaligned");
}

/// A tensor that an execution leaves without memory is no output, however it is asked for.
void test_outputs_without_memory() {
  for (const char* name : {"free_output", "move_nothing"}) {
    check_refused(name, Error::InvalidState, "output 0 has no memory");
    Test test(name);
    CHECK_ERROR(test.runner->load(), Error::Ok);
    CHECK_ERROR(test.runner->run(), Error::InvalidState);
    EValue output;
    CHECK_ERROR(test.runner->method().get_outputs(&output, 1), Error::InvalidState);
    CHECK(output.isNone());

    Test stepped(name);
    CHECK_ERROR(stepped.runner->load(), Error::Ok);
    CHECK_ERROR(stepped.runner->set_inputs(), Error::Ok);
    Error error = Error::Ok;
    while (error == Error::Ok) {
      error = stepped.runner->method().step();
    }
    CHECK_ERROR(error, Error::InvalidState);
  }
  Test unplanned("unplanned_output");
  CHECK_ERROR(unplanned.runner->load(), Error::Ok);
  CHECK_ERROR(unplanned.runner->set_inputs(), Error::Ok);
  EValue output;
  CHECK_ERROR(unplanned.runner->method().get_outputs(&output, 1), Error::InvalidState);
  CHECK_ERROR(unplanned.runner->method().execute(), Error::InvalidState);
  CHECK_ERROR(unplanned.runner->run(), Error::Ok);
  check_output(*unplanned.runner, {0.5f, 0.75f});
}

/// An output that a move has replaced has the other value's memory: memory from the caller would
/// become that of an input, or of a constant.
void test_moved_outputs() {
  for (const char* name : {"moved_output", "moved_constant"}) {
    Test test(name);
    CHECK_ERROR(test.runner->load(), Error::Ok);
    CHECK_ERROR(test.runner->run(), Error::Ok);
    const std::vector<float> expected = test.runner->output();
    take_log();
    CHECK_ERROR(test.runner->set_outputs(), Error::InvalidState);
    const std::string log = take_log();
    CHECK(log.find("memory of another value") != std::string::npos, "%s", log.c_str());
    CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
    CHECK_ERROR(test.runner->method().execute(), Error::Ok);
    check_output(*test.runner, expected);
    const uint8_t* const data = test.block->data();
    CHECK(test.bytes == std::vector<uint8_t>(data, data + test.block->size()));
  }
}

/// Executes a program with a limit of instructions, twice.
void check_limit(const char* name, uint32_t limit, Error expected) {
  Test test(name);
  CHECK_ERROR(test.runner->load(), Error::Ok);
  set_instruction_limit(limit);
  for (int i = 0; i < 2; ++i) {
    CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
    CHECK_ERROR(test.runner->method().execute(), expected);
  }
  set_instruction_limit(kDefaultInstructionLimit);
}

void test_instruction_limit() {
  // Four instructions, and three times the three of the loop again.
  check_limit("loop", 13, Error::Ok);
  check_limit("loop", 12, Error::InvalidProgram);
  check_limit("chains", 3, Error::Ok);
  check_limit("chains", 2, Error::InvalidProgram);
  check_limit("endless", 1000, Error::InvalidProgram);

  // The limit counts jumps of an execution by steps.
  Test test("endless");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
  set_instruction_limit(10);
  for (int i = 0; i < 10; ++i) {
    CHECK_ERROR(test.runner->method().step(), Error::Ok);
  }
  CHECK_ERROR(test.runner->method().step(), Error::InvalidProgram);
  set_instruction_limit(kDefaultInstructionLimit);
}

void test_arena_is_exact() {
  for (const char* name :
       {"increment",
        "constant",
        "loop",
        "lists",
        "dtypes",
        "state",
        "methods",
        "no_instructions",
        "number_input",
        "move",
        "channels_last",
        "empty_tensor"}) {
    Test test(name);
    const size_t planned = test.planned("method");
    CHECK_ERROR(test.runner->load("forward", planned), Error::Ok);
    CHECK(
        test.runner->method_arena_used() == planned,
        "%s: %zu",
        name,
        test.runner->method_arena_used());
    CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
    CHECK_ERROR(test.runner->method().execute(), Error::Ok);
    for (size_t size = 0; size < planned; size += size + 16 < planned ? 7 : 1) {
      Test smaller(name);
      take_log();
      set_quiet(size != planned - 1);
      CHECK_ERROR(smaller.runner->load("forward", size), Error::MemoryAllocationFailed);
      set_quiet(false);
    }
    const std::string needed = "needs " + std::to_string(planned) + " bytes";
    const std::string log = take_log();
    CHECK(log.find(needed) != std::string::npos, "%s: %s", name, log.c_str());
  }
}

/// An allocator that is not one block of memory, such as one on a heap.
class HeapAllocator final : public executorch::runtime::MemoryAllocator {
 public:
  HeapAllocator() : MemoryAllocator(0, nullptr) {}
  void* allocate(size_t size, size_t) override {
    blocks_.emplace_back(size);
    return blocks_.back().data();
  }

 private:
  std::vector<Block> blocks_;
};

void test_allocator_on_heap() {
  Test test("lists");
  executorch::extension::BufferDataLoader loader(test.block->data(), test.block->size());
  auto program = Program::load(&loader);
  CHECK(program.ok());
  HeapAllocator allocator;
  Block planned(64);
  Span<uint8_t> spans[] = {{planned.data(), planned.size()}};
  executorch::runtime::HierarchicalAllocator hierarchical({spans, 1});
  executorch::runtime::MemoryManager manager(&allocator, &hierarchical);
  auto method = program->load_method("forward", &manager);
  CHECK_ERROR(method.error(), Error::Ok);
  float data[] = {0, 0};
  int32_t sizes[] = {2};
  TensorImpl impl(ScalarType::Float, 1, sizes, data);
  CHECK_ERROR(method->set_input(EValue(Tensor(&impl)), 0), Error::Ok);
  CHECK_ERROR(method->execute(), Error::Ok);
  CHECK(method->get_output(0).toTensor().const_data_ptr<float>()[0] == 1);
}

void test_state() {
  Test test("state");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  CHECK_ERROR(test.runner->run(), Error::Ok);
  check_output(*test.runner, {100.5f, 200.75f});
  CHECK_ERROR(test.runner->run(), Error::Ok);
  check_output(*test.runner, {101.5f, 201.75f});
  const auto attribute = test.runner->method().get_attribute("counter");
  CHECK(attribute.ok());
  CHECK(attribute->const_data_ptr<float>()[1] == 202);
  CHECK_ERROR(test.runner->method().get_attribute("other").error(), Error::NotFound);
  const MethodMeta meta = test.runner->method().method_meta();
  CHECK(meta.num_attributes() == 1);
  CHECK(meta.attribute_tensor_meta(0)->name() == "counter");
  CHECK(!meta.attribute_tensor_meta(1).ok());
}

void test_set_input() {
  Test test("increment");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  Method& method = test.runner->method();
  CHECK_ERROR(method.execute(), Error::InvalidState);
  float data[] = {1, 2, 3};
  int32_t sizes[] = {2};
  uint8_t dim_order[] = {0};
  TensorImpl good(ScalarType::Float, 1, sizes, data, dim_order);
  CHECK_ERROR(method.set_input(EValue(Tensor(&good)), 1), Error::InvalidArgument);
  CHECK_ERROR(method.set_input(EValue(int64_t{1}), 0), Error::InvalidArgument);
  TensorImpl other_type(ScalarType::Int, 1, sizes, data, dim_order);
  CHECK_ERROR(method.set_input(EValue(Tensor(&other_type)), 0), Error::InvalidArgument);
  int32_t other_sizes[] = {3};
  TensorImpl other_shape(ScalarType::Float, 1, other_sizes, data, dim_order);
  CHECK_ERROR(method.set_input(EValue(Tensor(&other_shape)), 0), Error::InvalidArgument);
  int32_t more_sizes[] = {1, 2};
  TensorImpl other_rank(ScalarType::Float, 2, more_sizes, data);
  CHECK_ERROR(method.set_input(EValue(Tensor(&other_rank)), 0), Error::InvalidArgument);
  TensorImpl no_data(ScalarType::Float, 1, sizes, nullptr, dim_order);
  CHECK_ERROR(method.set_input(EValue(Tensor(&no_data)), 0), Error::InvalidArgument);
  CHECK_ERROR(method.execute(), Error::InvalidState);
  const EValue inputs[] = {EValue(Tensor(&good)), EValue(Tensor(&good))};
  CHECK_ERROR(method.set_inputs({inputs, 2}), Error::InvalidArgument);
  CHECK_ERROR(method.set_inputs({inputs, 1}), Error::Ok);
  CHECK_ERROR(method.execute(), Error::Ok);
  check_output(*test.runner, {2, 3});
  CHECK_ERROR(method.set_output_data_ptr(data, sizeof(data), 0), Error::InvalidState);
  CHECK_ERROR(method.set_output_data_ptr(data, sizeof(data), 1), Error::InvalidArgument);
  EValue outputs[2];
  CHECK_ERROR(method.get_outputs(outputs, 0), Error::InvalidArgument);
  CHECK_ERROR(method.get_outputs(outputs, 2), Error::Ok);
  CHECK(outputs[0].isTensor() && outputs[1].isNone());
}

void test_dim_order() {
  Test test("channels_last");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  float data[8] = {};
  int32_t sizes[] = {1, 2, 2, 2};
  uint8_t contiguous[] = {0, 1, 2, 3};
  TensorImpl other_order(ScalarType::Float, 4, sizes, data, contiguous);
  CHECK_ERROR(
      test.runner->method().set_input(EValue(Tensor(&other_order)), 0), Error::InvalidArgument);
  TensorImpl no_order(ScalarType::Float, 4, sizes, data);
  CHECK_ERROR(
      test.runner->method().set_input(EValue(Tensor(&no_order)), 0), Error::InvalidArgument);
  CHECK_ERROR(test.runner->run(), Error::Ok);
  const Tensor input = test.runner->method().get_input(0).toTensor();
  const int32_t strides[] = {8, 1, 4, 2};
  CHECK(input.strides().equals(strides));
}

void test_number_inputs() {
  Test test("number_input");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  CHECK_ERROR(test.runner->run(), Error::Ok);
  Method& method = test.runner->method();
  CHECK_ERROR(method.set_input(EValue(int64_t{7}), 1), Error::Ok);
  CHECK_ERROR(method.set_input(EValue(int64_t{8}), 1), Error::InvalidArgument);
  CHECK_ERROR(method.set_input(EValue(0.25), 2), Error::InvalidArgument);
  CHECK_ERROR(method.set_input(EValue(false), 3), Error::InvalidArgument);
  CHECK_ERROR(method.set_input(EValue(), 4), Error::Ok);
}

void test_steps() {
  Test test("loop");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
  Method& method = test.runner->method();
  CHECK(!method.in_progress());
  CHECK_ERROR(method.step(), Error::Ok);
  CHECK(method.in_progress());
  CHECK_ERROR(method.execute(), Error::InvalidState);
  CHECK_ERROR(method.reset_execution(), Error::InvalidState);
  // Four rounds of three instructions, one of which is done, and the last instruction.
  for (int i = 0; i < 4 * 3; ++i) {
    CHECK_ERROR(method.step(), Error::Ok);
  }
  CHECK_ERROR(method.step(), Error::EndOfMethod);
  CHECK(!method.in_progress());
  check_output(*test.runner, {4.5f, 4.75f});
  CHECK_ERROR(method.reset_execution(), Error::Ok);
  CHECK_ERROR(test.runner->set_inputs(), Error::Ok);
  CHECK_ERROR(method.execute(), Error::Ok);
}

void test_methods() {
  Test test("methods");
  CHECK_ERROR(test.runner->load("another"), Error::Ok);
  Program& program = test.runner->program();
  CHECK(program.num_methods() == 2);
  CHECK(std::strcmp(*program.get_method_name(0), "forward") == 0);
  CHECK(std::strcmp(*program.get_method_name(1), "another") == 0);
  CHECK_ERROR(program.get_method_name(2).error(), Error::InvalidArgument);
  CHECK_ERROR(program.method_meta("third").error(), Error::InvalidArgument);
  CHECK(std::strcmp(*program.get_output_flattening_encoding("another"), "out") == 0);
  const MethodMeta meta = test.runner->method().method_meta();
  CHECK(std::strcmp(meta.name(), "another") == 0);
  CHECK(
      meta.num_instructions() == 2 && meta.num_inputs() == 1 && meta.num_outputs() == 1 &&
      meta.num_backends() == 0);
  CHECK(*meta.input_tag(0) == Tag::Tensor);
  CHECK(!meta.input_tag(1).ok());
  const auto info = meta.input_tensor_meta(0);
  CHECK(
      info.ok() && info->nbytes() == 8 && info->is_memory_planned() &&
      info->scalar_type() == ScalarType::Float);
  CHECK(meta.num_memory_planned_buffers() == 1 && *meta.memory_planned_buffer_size(0) == 64);
  CHECK(!meta.memory_planned_buffer_size(1).ok());
  CHECK_ERROR(Test("methods").runner->load("third"), Error::InvalidArgument);

  Method moved = std::move(test.runner->method());
  CHECK_ERROR(test.runner->method().execute(), Error::InvalidState);
  CHECK(moved.inputs_size() == 1);
}

void test_delegate_meta() {
  Test test("delegate");
  executorch::extension::BufferDataLoader loader(test.block->data(), test.block->size());
  const auto program = Program::load(&loader);
  const auto meta = program->method_meta("forward");
  CHECK(
      meta.ok() && meta->num_backends() == 1 && meta->uses_backend("SomeBackend") &&
      !meta->uses_backend("Other"));
  CHECK(std::strcmp(*meta->get_backend_name(0), "SomeBackend") == 0);
}

void test_named_data() {
  Test test("named_data");
  CHECK_ERROR(test.runner->load(), Error::Ok);
  const auto map = test.runner->program().get_named_data_map();
  CHECK(map.ok());
  CHECK(*(*map)->get_num_keys() == 1);
  CHECK(std::strcmp(*(*map)->get_key(0), "key") == 0);
  CHECK_ERROR((*map)->get_key(1).error(), Error::InvalidArgument);
  auto data = (*map)->get_data("key");
  CHECK(data.ok() && data->size() == 11 && std::memcmp(data->data(), "named bytes", 11) == 0);
  CHECK_ERROR((*map)->get_data("other").error(), Error::NotFound);
  Test without("increment");
  CHECK_ERROR(without.runner->load(), Error::Ok);
  CHECK_ERROR(without.runner->program().get_named_data_map().error(), Error::NotFound);
}

void test_dtypes() {
  Test test("dtypes");
  CHECK_ERROR(test.runner->load(), Error::Ok);
}

} // namespace
} // namespace torch_fusion::testing

int main(int, char** argv) {
  using namespace torch_fusion::testing;
  folder = argv[1];
  test_instructions();
  test_refused();
  test_outputs_without_memory();
  test_moved_outputs();
  test_instruction_limit();
  test_arena_is_exact();
  test_allocator_on_heap();
  test_state();
  test_set_input();
  test_dim_order();
  test_number_inputs();
  test_steps();
  test_methods();
  test_delegate_meta();
  test_named_data();
  test_dtypes();
  return 0;
}
