// Loads and runs corrupted programs: whatever happens, it is an error with a name, the program is
// not written to, and the sanitizers find nothing.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "runtime/executor/execution_limit.h"
#include "runtime/tests/check.h"
#include "runtime/tests/log.h"
#include "runtime/tests/program_runner.h"

namespace torch_fusion::testing {
namespace {

std::string folder;

std::vector<uint8_t> read_program(const std::string& name) {
  return read_file(folder + "/" + name + ".pte");
}

/// Loads and runs the first `size` bytes.
Error try_program(const std::vector<uint8_t>& bytes, size_t size, size_t misalignment = 0) {
  Block block(size, misalignment);
  std::copy_n(bytes.begin(), size, block.data());
  ProgramRunner runner(block.data(), size);
  Error error = runner.load();
  // Twice, because the second execution sees the effects of the first.
  for (int i = 0; i < 2 && error == Error::Ok; ++i) {
    error = runner.run();
  }
  CHECK(std::equal(block.data(), block.data() + size, bytes.begin()), "the program was written to");
  return error;
}

Error try_program(const std::vector<uint8_t>& bytes) {
  return try_program(bytes, bytes.size());
}

void check_log(const char* message) {
  const std::string log = take_log();
  CHECK(log.find(message) != std::string::npos, "no \"%s\" in the log:\n%s", message, log.c_str());
}

void test_named_errors() {
  const std::vector<uint8_t> good = read_program("constant");
  CHECK_ERROR(try_program(good), Error::Ok);
  take_log();

  CHECK_ERROR(try_program(good, 0), Error::AccessFailed);
  check_log("0 bytes are too few");
  CHECK_ERROR(try_program(good, 63), Error::AccessFailed);
  check_log("63 bytes are too few");
  CHECK_ERROR(try_program(good, good.size() - 1), Error::AccessFailed);
  check_log("truncated program");
  CHECK_ERROR(try_program(good, 200), Error::AccessFailed);
  check_log("truncated program");
  for (const size_t misalignment : {1, 2, 4, 8, 15}) {
    CHECK_ERROR(try_program(good, good.size(), misalignment), Error::InvalidArgument);
    check_log("not a multiple of 16");
  }

  std::vector<uint8_t> other_version = good;
  other_version[7] = '3';
  CHECK_ERROR(try_program(other_version), Error::NotSupported);
  check_log("program format ET13 is not ET12");

  std::vector<uint8_t> foreign(good.size(), 0x5a);
  CHECK_ERROR(try_program(foreign), Error::InvalidProgram);
  check_log("not an ExecuTorch program");

  // A big-endian writer gives the root's offset with its bytes swapped.
  std::vector<uint8_t> big_endian = read_program("inline_constant");
  std::swap(big_endian[0], big_endian[3]);
  std::swap(big_endian[1], big_endian[2]);
  CHECK_ERROR(try_program(big_endian), Error::NotSupported);
  check_log("big-endian");

  std::vector<uint8_t> bad_header = good;
  bad_header[12] = 8;
  CHECK_ERROR(try_program(bad_header), Error::InvalidProgram);
  check_log("corrupted extended header");

  std::vector<uint8_t> bad_root = good;
  bad_root[0] = 0xff;
  bad_root[1] = 0xff;
  CHECK_ERROR(try_program(bad_root), Error::InvalidProgram);
  check_log("corrupted or truncated program");

  CHECK_ERROR(Program::load(nullptr).error(), Error::InvalidArgument);
}

uint32_t word_at(const std::vector<uint8_t>& bytes, size_t place) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + place, sizeof(word));
  return word;
}

/// Place of a field of a table.
size_t field_of(const std::vector<uint8_t>& bytes, size_t table, size_t slot) {
  const size_t vtable = static_cast<size_t>(
      static_cast<int64_t>(table) - static_cast<int32_t>(word_at(bytes, table)));
  return table + (word_at(bytes, vtable + 4 + 2 * slot) & 0xffff);
}

size_t target_of(const std::vector<uint8_t>& bytes, size_t reference) {
  return reference + word_at(bytes, reference);
}

/// The first table of a vector that a table refers to.
size_t first_of(const std::vector<uint8_t>& bytes, size_t table, size_t slot) {
  return target_of(bytes, target_of(bytes, field_of(bytes, table, slot)) + 4);
}

/// A table at the program's end, whose two numbers follow it: they would be absent when they are
/// checked, and present when the instruction is executed.
void test_table_at_end() {
  std::vector<uint8_t> bytes = read_program("move");
  const size_t plan = first_of(bytes, target_of(bytes, 0), 1);
  const size_t instruction = first_of(bytes, first_of(bytes, plan, 5), 2);
  const size_t arguments = field_of(bytes, instruction, 1);
  // A vtable of two fields, and a table of its own size that refers to it.
  const uint8_t table[] = {8, 0, 4, 0, 4, 0, 8, 0, 8, 0, 0, 0};
  bytes.resize((bytes.size() + 3) & ~size_t{3});
  const uint32_t distance = static_cast<uint32_t>(bytes.size() + 8 - arguments);
  std::memcpy(bytes.data() + arguments, &distance, sizeof(distance));
  bytes.insert(bytes.end(), std::begin(table), std::end(table));
  CHECK_ERROR(try_program(bytes), Error::InvalidProgram);
  check_log("instruction 0 is corrupted");
}

/// Loads a method as an application does that knows its memory, and doesn't ask for the method's
/// MethodMeta, which has checks of its own.
Error load_method(const std::vector<uint8_t>& bytes) {
  Block block(bytes.size());
  std::copy(bytes.begin(), bytes.end(), block.data());
  executorch::extension::BufferDataLoader loader(block.data(), block.size());
  const auto program = Program::load(&loader);
  if (!program.ok()) {
    return program.error();
  }
  Block arena(ProgramRunner::kLargeArena);
  Block planned(64);
  MemoryAllocator allocator(static_cast<uint32_t>(arena.size()), arena.data());
  Span<uint8_t> span(planned.data(), planned.size());
  HierarchicalAllocator hierarchical({&span, 1});
  MemoryManager manager(&allocator, &hierarchical);
  return program->load_method("forward", &manager).error();
}

/// Numbers of an operator, an input and an output that are not there.
void test_numbers_outside() {
  const auto plan_of = [](const std::vector<uint8_t>& bytes) {
    return first_of(bytes, target_of(bytes, 0), 1);
  };
  const auto check_refused = [](std::vector<uint8_t> bytes, size_t place, const char* message) {
    CHECK_ERROR(load_method(bytes), Error::Ok);
    bytes[place] = 99;
    CHECK_ERROR(load_method(bytes), Error::InvalidProgram);
    check_log(message);
  };
  const std::vector<uint8_t> move = read_program("move");
  const size_t inputs = target_of(move, field_of(move, plan_of(move), 3));
  check_refused(move, inputs + 4, "input 0 is value 99 of 3");
  const size_t outputs = target_of(move, field_of(move, plan_of(move), 4));
  check_refused(move, outputs + 4, "the method is corrupted");
  const std::vector<uint8_t> lists = read_program("lists");
  const size_t instruction = first_of(lists, first_of(lists, plan_of(lists), 5), 2);
  const size_t call = target_of(lists, field_of(lists, instruction, 1));
  check_refused(lists, field_of(lists, call, 0), "instruction 0 calls operator 99 of 6");
}

void test_check_header() {
  const std::vector<uint8_t> good = read_program("constant");
  CHECK(Program::check_header(good.data(), 63) == Program::ShortData);
  CHECK(Program::check_header(good.data(), good.size()) == Program::CompatibleVersion);
  std::vector<uint8_t> other = good;
  other[6] = '2';
  CHECK(Program::check_header(other.data(), other.size()) == Program::IncompatibleVersion);
  other[4] = 'X';
  CHECK(Program::check_header(other.data(), other.size()) == Program::NotPresent);
}

/// Every truncation and every flip of a single bit; the flips also without the checks of a
/// MethodMeta.
void test_corruptions(const char* name) {
  const std::vector<uint8_t> good = read_program(name);
  CHECK_ERROR(try_program(good), Error::Ok);
  for (size_t size = 0; size < good.size(); ++size) {
    static_cast<void>(try_program(good, size));
  }
  size_t refused = 0;
  std::vector<uint8_t> bad = good;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    bad[bit / 8] ^= 1u << bit % 8;
    refused += try_program(bad) != Error::Ok;
    static_cast<void>(load_method(bad));
    bad[bit / 8] = good[bit / 8];
  }
  // Most of a small program is structure, in which a flip cannot go unnoticed.
  CHECK(
      refused > good.size(),
      "%s: only %zu flips of %zu were refused",
      name,
      refused,
      8 * good.size());
}

} // namespace
} // namespace torch_fusion::testing

int main(int argc, char** argv) {
  using namespace torch_fusion::testing;
  folder = argv[1];
  test_named_errors();
  test_table_at_end();
  test_numbers_outside();
  test_check_header();
  set_quiet(true);
  torch_fusion::set_instruction_limit(10000);
  for (int i = 2; i < argc; ++i) {
    test_corruptions(argv[i]);
  }
  return 0;
}
