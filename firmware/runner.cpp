/// Runs any program with every kernel: //tools/run_pte's image. The host names the program, its
/// inputs and where the outputs go (firmware/host.h); the arenas are as large as the machine
/// allows, because nothing is planned for the program.
///
/// Inputs and outputs are a sequence of values, each a Header and its bytes in memory order. A
/// number is a tensor without dimensions: Long for an integer, Double for a float, Bool for a bool.

#include <cstring>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/error_text.h"
#include "firmware/high_water_allocator.h"
#include "firmware/host.h"
#include "firmware/stack.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::extension::BufferDataLoader;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;
using executorch::runtime::Tag;

constexpr size_t kMaxDim = 16;
/// Of the schema's planned buffers; ExecuTorch's own planner makes one or two.
constexpr size_t kMaxPlannedBuffers = 16;

/// One input or output, as firmware/host.h's files have it.
struct Header {
  int32_t dtype;
  uint32_t dim;
  int32_t sizes[kMaxDim];
  uint8_t dim_order[kMaxDim];
  uint32_t nbytes;
};

constexpr size_t kMethodArenaSize = RUNNER_METHOD_ARENA_SIZE;
constexpr size_t kPlannedArenaSize = RUNNER_PLANNED_ARENA_SIZE;
constexpr size_t kTempArenaSize = RUNNER_TEMP_ARENA_SIZE;
constexpr size_t kArenaAlignment = 16;

#ifdef __arm__
#define ARENA(name) alignas(kArenaAlignment) __attribute__((section(".arena." #name)))
#else
#define ARENA(name) alignas(kArenaAlignment)
#endif
ARENA(method) uint8_t method_arena[kMethodArenaSize];
ARENA(planned) uint8_t planned_arena[kPlannedArenaSize];
ARENA(temp) uint8_t temp_arena[kTempArenaSize];

HostReport report;

[[noreturn]] void fail(const char* step, Error error) {
  torch_fusion::write_error(step, error);
  report.error = static_cast<uint32_t>(error);
  host_close(&report);
  board_exit(kExitError);
}

void check(const char* step, Error error) {
  if (error != Error::Ok) {
    fail(step, error);
  }
}

/// The part of planned_arena that is taken.
size_t planned_end = 0;

/// Takes `size` bytes of the planned arena.
uint8_t* take_planned(uint64_t size) {
  if (size > kPlannedArenaSize - planned_end) {
    fail("load", Error::MemoryAllocationFailed);
  }
  uint8_t* const start = planned_arena + planned_end;
  // The arena's size is a multiple of the alignment, so that this stays within it.
  planned_end +=
      (static_cast<size_t>(size) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  return start;
}

/// Gives every planned buffer its part of the arena. Returns how many there are.
size_t place_buffers(const MethodMeta& meta, Span<uint8_t>* buffers) {
  const size_t count = meta.num_memory_planned_buffers();
  if (count > kMaxPlannedBuffers) {
    fail("load", Error::NotSupported);
  }
  for (size_t i = 0; i < count; ++i) {
    const Result<int64_t> size = meta.memory_planned_buffer_size(i);
    check("load", size.error());
    if (*size < 0) {
      fail("load", Error::InvalidProgram);
    }
    buffers[i] = {take_planned(static_cast<uint64_t>(*size)), static_cast<size_t>(*size)};
    report.planned_used += static_cast<uint32_t>(*size);
  }
  return count;
}

/// Gives memory to the outputs that the program was exported without memory for.
void place_outputs(Method& method) {
  const MethodMeta meta = method.method_meta();
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    const Result<Tag> tag = meta.output_tag(i);
    check("load", tag.error());
    if (*tag != Tag::Tensor) {
      continue;
    }
    const auto tensor = meta.output_tensor_meta(i);
    check("load", tensor.error());
    // An output that is an input or a constant has memory, planned or not.
    if (!tensor->is_memory_planned() &&
        method.get_output(i).toTensor().const_data_ptr() == nullptr) {
      check(
          "load", method.set_output_data_ptr(take_planned(tensor->nbytes()), tensor->nbytes(), i));
    }
  }
}

/// The number in a tensor without dimensions.
template <typename T>
T number(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

/// Sets the next input from the host's file.
void set_input(Method& method, size_t index) {
  const void* const start = host_read(sizeof(Header));
  if (start == nullptr) {
    board_exit(kExitHost);
  }
  Header header;
  std::memcpy(&header, start, sizeof(header));
  // The elements of an empty tensor are nowhere in the file.
  const void* const data = header.nbytes == 0 ? start : host_read(header.nbytes);
  if (data == nullptr) {
    board_exit(kExitHost);
  }
  const Result<Tag> tag = method.method_meta().input_tag(index);
  check("input", tag.error());
  if (*tag == Tag::Int) {
    return check("input", method.set_input(EValue(number<int64_t>(data)), index));
  }
  if (*tag == Tag::Double) {
    return check("input", method.set_input(EValue(number<double>(data)), index));
  }
  if (*tag == Tag::Bool) {
    return check("input", method.set_input(EValue(number<bool>(data)), index));
  }
  TensorImpl::StridesType strides[kMaxDim];
  int32_t stride = 1;
  for (uint32_t i = header.dim; i-- > 0;) {
    strides[header.dim_order[i]] = stride;
    stride *= header.sizes[header.dim_order[i]];
  }
  TensorImpl tensor(
      static_cast<ScalarType>(header.dtype),
      static_cast<ssize_t>(header.dim),
      header.sizes,
      const_cast<void*>(data),
      header.dim_order,
      strides);
  check("input", method.set_input(EValue(Tensor(&tensor)), index));
}

void write_value(ScalarType dtype, const void* data, size_t nbytes) {
  Header header = {};
  header.dtype = static_cast<int32_t>(dtype);
  header.nbytes = static_cast<uint32_t>(nbytes);
  host_write(&header, sizeof(header));
  host_write(data, nbytes);
}

void write_output(const EValue& value) {
  if (value.isInt()) {
    const int64_t number = value.toInt();
    return write_value(ScalarType::Long, &number, sizeof(number));
  }
  if (value.isDouble()) {
    const double number = value.toDouble();
    return write_value(ScalarType::Double, &number, sizeof(number));
  }
  if (value.isBool()) {
    const bool number = value.toBool();
    return write_value(ScalarType::Bool, &number, sizeof(number));
  }
  if (!value.isTensor()) {
    fail("output", Error::NotSupported);
  }
  const Tensor& tensor = value.toTensor();
  Header header = {};
  header.dtype = static_cast<int32_t>(tensor.scalar_type());
  header.dim = static_cast<uint32_t>(tensor.dim());
  for (uint32_t i = 0; i < header.dim; ++i) {
    header.sizes[i] = tensor.sizes()[i];
    header.dim_order[i] = tensor.dim_order()[i];
  }
  header.nbytes = static_cast<uint32_t>(tensor.nbytes());
  host_write(&header, sizeof(header));
  host_write(tensor.const_data_ptr(), header.nbytes);
}

uint32_t ticks_since(uint32_t start) {
  const uint32_t end = board_ticks();
  const uint32_t overhead = board_ticks() - end;
  return end - start - overhead;
}

} // namespace

int main() {
  host_open();
  size_t size = 0;
  const void* const data = host_file("program=", &size);
  if (data == nullptr) {
    console_text("ERROR: the host named no program\n");
    board_exit(kExitHost);
  }

  BufferDataLoader loader(data, size);
  MemoryAllocator method_allocator(kMethodArenaSize, method_arena);
  torch_fusion::HighWaterAllocator temp_allocator(kTempArenaSize, temp_arena);

  // Time for the buffers' sizes, which an image for one program knows, is no part of loading.
  uint32_t start = board_ticks();
  Result<Program> program = Program::load(&loader, Program::Verification::InternalConsistency);
  report.load_ticks = ticks_since(start);
  check("load", program.error());
  const Result<const char*> name = program->get_method_name(0);
  check("load", name.error());
  const Result<MethodMeta> meta = program->method_meta(*name);
  check("load", meta.error());
  Span<uint8_t> buffers[kMaxPlannedBuffers];
  HierarchicalAllocator planned_memory({buffers, place_buffers(*meta, buffers)});
  MemoryManager memory_manager(&method_allocator, &planned_memory, &temp_allocator);

  start = board_ticks();
  Result<Method> method = program->load_method(*name, &memory_manager);
  report.load_ticks += ticks_since(start);
  check("load", method.error());
  report.method_used = method_allocator.used_size();

  for (size_t i = 0; i < method->inputs_size(); ++i) {
    set_input(*method, i);
  }
  place_outputs(*method);
  start = board_ticks();
  const Error error = method->execute();
  report.execute_ticks = ticks_since(start);
  report.temp_used = temp_allocator.high_water();
  check("execute", error);
  for (size_t i = 0; i < method->outputs_size(); ++i) {
    write_output(method->get_output(i));
  }
  report.samples = 1;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  report.pass = kHostReportPass;
  console_text("\nPASS\n");
  host_close(&report);
  return kExitPass;
}
