/// Runs any programs with every kernel, one after the other: the image of //tools/verify/run_pte
/// and of
/// //conformance. The arenas are as large as the machine allows, because nothing is planned for the
/// programs.
///
/// The host's inputs (firmware/host.h) are a sequence of cases: a CaseHeader, the program, and the
/// inputs, each of these padded to 16 bytes. Its outputs are a sequence of results: a
/// ResultHeader and the outputs. Inputs and outputs are sequences of values, each a ValueHeader and
/// its bytes in memory order, of inputs both padded to 16 bytes. A number is a tensor without
/// dimensions: Long for an integer, Double for a float, Bool for a bool. Before a case the console
/// says "CASE " and its index, so that it is known whose messages follow, and which case ended the
/// image if one does.

#include <cstring>
#include <new>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/error_text.h"
#include "firmware/guard.h"
#include "firmware/high_water_allocator.h"
#include "firmware/host.h"
#include "firmware/runner.h"
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
using torch_fusion::CaseHeader;
using torch_fusion::kMaxDim;
using torch_fusion::ResultHeader;
using torch_fusion::Step;
using torch_fusion::ValueHeader;

/// The limit of the schema's planned buffers; ExecuTorch's own planner makes one or two,
/// //conformance one per tensor.
constexpr size_t kMaxPlannedBuffers = 256;

constexpr size_t kMethodArenaSize = RUNNER_METHOD_ARENA_SIZE;
constexpr size_t kPlannedArenaSize = RUNNER_PLANNED_ARENA_SIZE;
constexpr size_t kTempArenaSize = RUNNER_TEMP_ARENA_SIZE;
constexpr size_t kArenaAlignment = 16;

constexpr size_t align_up(size_t size) {
  return (size + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

#ifdef __arm__
#define ARENA(name) alignas(kArenaAlignment) __attribute__((section(".arena." #name)))
#else
#define ARENA(name) alignas(kArenaAlignment)
#endif
ARENA(method) uint8_t method_arena[kMethodArenaSize];
ARENA(planned) uint8_t planned_arena[kPlannedArenaSize];
ARENA(temp) uint8_t temp_arena[kTempArenaSize];

/// Temporary memory in which accesses outside of what was allocated are seen (firmware/guard.h).
class TempAllocator final : public torch_fusion::HighWaterAllocator {
 public:
  TempAllocator() : HighWaterAllocator(kTempArenaSize, temp_arena) {}

  void* allocate(size_t size, size_t alignment) override {
    if (size > kTempArenaSize) {
      return nullptr;
    }
    void* const start = HighWaterAllocator::allocate(size + torch_fusion::kGuardSize, alignment);
    if (start != nullptr) {
      torch_fusion::unguard(start, size);
    }
    return start;
  }

  void reset() override {
    torch_fusion::guard(temp_arena, used_size());
    HighWaterAllocator::reset();
  }
};

/// One program, its inputs, and what running it gives.
class Case final {
 public:
  Case(const CaseHeader& header, const void* program, const void* inputs)
      : loader_(program, header.program_size),
        input_count_(header.input_count),
        first_input_(static_cast<const uint8_t*>(inputs)),
        input_(first_input_),
        method_allocator_(kMethodArenaSize, method_arena) {}

  /// Runs the program and writes the result.
  void run();

 private:
  Error run_program();
  Error take_planned(uint64_t size, uint8_t** start);
  Error place_buffers(const MethodMeta& meta);
  Error place_outputs(Method& method);
  Error set_input(Method& method, size_t index);
  void run_again(Method& method);

  BufferDataLoader loader_;
  uint32_t input_count_;
  const uint8_t* first_input_;
  const uint8_t* input_;
  MemoryAllocator method_allocator_;
  TempAllocator temp_allocator_;
  ResultHeader result_ = {};
  /// The part of planned_arena that is taken.
  size_t planned_end_ = 0;
  Span<uint8_t> buffers_[kMaxPlannedBuffers];
  size_t buffer_count_ = 0;
};

/// Takes `size` bytes of the planned arena.
Error Case::take_planned(uint64_t size, uint8_t** start) {
  // The arena's size and the guard's are multiples of the alignment, so that this stays within it.
  if (size > kPlannedArenaSize ||
      size + torch_fusion::kGuardSize > kPlannedArenaSize - planned_end_) {
    return Error::MemoryAllocationFailed;
  }
  *start = planned_arena + planned_end_;
  torch_fusion::unguard(*start, static_cast<size_t>(size));
  planned_end_ += align_up(static_cast<size_t>(size)) + torch_fusion::kGuardSize;
  return Error::Ok;
}

/// Gives every planned buffer its part of the arena.
Error Case::place_buffers(const MethodMeta& meta) {
  buffer_count_ = meta.num_memory_planned_buffers();
  if (buffer_count_ > kMaxPlannedBuffers) {
    return Error::NotSupported;
  }
  for (size_t i = 0; i < buffer_count_; ++i) {
    const Result<int64_t> size = meta.memory_planned_buffer_size(i);
    ET_CHECK_OK_OR_RETURN_ERROR(size.error());
    if (*size < 0) {
      return Error::InvalidProgram;
    }
    uint8_t* start = nullptr;
    ET_CHECK_OK_OR_RETURN_ERROR(take_planned(static_cast<uint64_t>(*size), &start));
    // A program's state starts with zeros, whatever ran before it.
    std::memset(start, 0, static_cast<size_t>(*size));
    buffers_[i] = {start, static_cast<size_t>(*size)};
    result_.planned_used += static_cast<uint32_t>(*size);
  }
  return Error::Ok;
}

/// Gives memory to the outputs that the program was exported without memory for.
Error Case::place_outputs(Method& method) {
  const MethodMeta meta = method.method_meta();
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    const Result<Tag> tag = meta.output_tag(i);
    ET_CHECK_OK_OR_RETURN_ERROR(tag.error());
    if (*tag != Tag::Tensor) {
      continue;
    }
    const auto tensor = meta.output_tensor_meta(i);
    ET_CHECK_OK_OR_RETURN_ERROR(tensor.error());
    // An output that is an input or a constant has memory, planned or not.
    if (!tensor->is_memory_planned() &&
        method.get_output(i).toTensor().const_data_ptr() == nullptr) {
      uint8_t* start = nullptr;
      ET_CHECK_OK_OR_RETURN_ERROR(take_planned(tensor->nbytes(), &start));
      ET_CHECK_OK_OR_RETURN_ERROR(method.set_output_data_ptr(start, tensor->nbytes(), i));
    }
  }
  return Error::Ok;
}

/// The number in a tensor without dimensions.
template <typename T>
T number(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

/// Sets the next input from the host's file.
Error Case::set_input(Method& method, size_t index) {
  ValueHeader header;
  std::memcpy(&header, input_, sizeof(header));
  const void* const data = input_ + align_up(sizeof(header));
  input_ += align_up(sizeof(header)) + align_up(header.nbytes);
  const Result<Tag> tag = method.method_meta().input_tag(index);
  ET_CHECK_OK_OR_RETURN_ERROR(tag.error());
  if (*tag == Tag::Int) {
    return method.set_input(EValue(number<int64_t>(data)), index);
  }
  if (*tag == Tag::Double) {
    return method.set_input(EValue(number<double>(data)), index);
  }
  if (*tag == Tag::Bool) {
    return method.set_input(EValue(number<bool>(data)), index);
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
  return method.set_input(EValue(Tensor(&tensor)), index);
}

void write_value(ScalarType dtype, const void* data, size_t nbytes) {
  ValueHeader header = {};
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
  const Tensor& tensor = value.toTensor();
  ValueHeader header = {};
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

/// Sets the inputs anew and executes; how that ends is of no interest.
void Case::run_again(Method& method) {
  input_ = first_input_;
  Error error = Error::Ok;
  for (size_t i = 0; i < input_count_ && error == Error::Ok; ++i) {
    error = set_input(method, i);
  }
  if (error == Error::Ok) {
    static_cast<void>(method.execute());
  }
}

Error Case::run_program() {
  result_.step = static_cast<uint32_t>(Step::kLoad);
  // Time for the buffers' sizes, which an image for one program knows, is no part of loading.
  uint32_t start = board_ticks();
  Result<Program> program = Program::load(&loader_, Program::Verification::InternalConsistency);
  result_.load_ticks = board_ticks_since(start);
  ET_CHECK_OK_OR_RETURN_ERROR(program.error());
  const Result<const char*> name = program->get_method_name(0);
  ET_CHECK_OK_OR_RETURN_ERROR(name.error());
  const Result<MethodMeta> meta = program->method_meta(*name);
  ET_CHECK_OK_OR_RETURN_ERROR(meta.error());
  ET_CHECK_OK_OR_RETURN_ERROR(place_buffers(*meta));
  HierarchicalAllocator planned_memory({buffers_, buffer_count_});
  MemoryManager memory_manager(&method_allocator_, &planned_memory, &temp_allocator_);

  start = board_ticks();
  Result<Method> method = program->load_method(*name, &memory_manager);
  result_.load_ticks += board_ticks_since(start);
  ET_CHECK_OK_OR_RETURN_ERROR(method.error());
  result_.method_used = method_allocator_.used_size();

  result_.step = static_cast<uint32_t>(Step::kInput);
  if (method->inputs_size() != input_count_) {
    return Error::InvalidArgument;
  }
  for (size_t i = 0; i < input_count_; ++i) {
    ET_CHECK_OK_OR_RETURN_ERROR(set_input(*method, i));
  }
  ET_CHECK_OK_OR_RETURN_ERROR(place_outputs(*method));

  result_.step = static_cast<uint32_t>(Step::kExecute);
  start = board_ticks();
  const Error error = method->execute();
  result_.execute_ticks = board_ticks_since(start);
  result_.temp_used = temp_allocator_.high_water();
  if (error == Error::Ok) {
    result_.step = static_cast<uint32_t>(Step::kOutput);
  } else if (torch_fusion::kGuardSize != 0) {
    return error;
  }
  // Without a sanitizer, the host sees what a refused call has written.
  for (size_t i = 0; i < method->outputs_size(); ++i) {
    const EValue& value = method->get_output(i);
    if (!value.isTensor() && !value.isInt() && !value.isDouble() && !value.isBool()) {
      return error == Error::Ok ? Error::NotSupported : error;
    }
  }
  result_.error = static_cast<uint32_t>(error);
  result_.output_count = method->outputs_size();
  host_write(&result_, sizeof(result_));
  for (size_t i = 0; i < method->outputs_size(); ++i) {
    write_output(method->get_output(i));
  }
  if constexpr (torch_fusion::kGuardSize != 0) {
    // If accesses are watched, it executes once more: the next execution finds the changes of this
    // one.
    run_again(*method);
  }
  return error;
}

void Case::run() {
  const Error error = run_program();
  if (error != Error::Ok) {
    constexpr const char* kSteps[] = {"load", "input", "execute", "output"};
    torch_fusion::write_error(kSteps[result_.step], error);
    if (result_.output_count == 0) {
      result_.error = static_cast<uint32_t>(error);
      host_write(&result_, sizeof(result_));
    }
  }
  torch_fusion::guard(planned_arena, planned_end_);
  temp_allocator_.reset();
}

/// Memory of one case.
alignas(Case) uint8_t case_memory[sizeof(Case)];

} // namespace

int main() {
  if (!host_open()) {
    console_text("ERROR: the host named no cases\n");
    board_exit(kExitHost);
  }
  torch_fusion::guard(planned_arena, kPlannedArenaSize);
  torch_fusion::guard(temp_arena, kTempArenaSize);
  HostReport report = {};
  // Nothing of a case is destroyed: its objects hold only memory.
  for (const void* start; (start = host_read(sizeof(CaseHeader))) != nullptr; ++report.samples) {
    CaseHeader header;
    std::memcpy(&header, start, sizeof(header));
    // An empty part has no offset in the file.
    const void* const program = header.program_size == 0 ? start : host_read(header.program_size);
    const void* const inputs = header.inputs_size == 0 ? start : host_read(header.inputs_size);
    if (program == nullptr || inputs == nullptr) {
      board_exit(kExitHost);
    }
    console_text("\nCASE ");
    console_unsigned(report.samples);
    console_text("\n");
    (new (case_memory) Case(header, program, inputs))->run();
  }
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  report.pass = kHostReportPass;
  console_text("\nPASS\n");
  host_close(&report);
  return kExitPass;
}
