#include <executorch/runtime/executor/method.h>

#include <cinttypes>

// Experimental and deprecated methods of the public API are defined and called here.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include "runtime/executor/arena.h"
#include "runtime/executor/value_parser.h"
#include "runtime/kernel/constant_data.h"
#include "runtime/kernel/kernel_lookup.h"
#include "runtime/schema/program_reader.h"

namespace executorch {
namespace runtime {

namespace {

using executorch::aten::Tensor;
using executorch_flatbuffer::ExecutionPlan;
using executorch_flatbuffer::Instruction;
using executorch_flatbuffer::InstructionArguments;
using executorch_flatbuffer::KernelCall;
using flatbuffers::Offset;
using flatbuffers::Vector;
using internal::Arena;

template <typename T>
uint32_t length(const Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : text->view();
}

// What loops a method may run: jumps back to an earlier instruction, in one execution. A program's loops end by
// themselves; this is for those of a corrupted one.
constexpr uint32_t kMaxBackwardJumps = 1u << 20;

} // namespace

namespace internal {

TORCH_FUSION_THREAD_LOCAL ConstantData constant_data = {0, 0};

} // namespace internal

/**
 * A verified list of instructions, and what all chains of a method share. Instructions are decoded where they are, in the
 * program, as they are executed: a decoded form would take RAM for each of their arguments.
 */
struct Chain {
  const Vector<Offset<Instruction>>* instructions;
  /// The kernel of each of the method's operators; nullptr for those whose kernels depend on their arguments.
  OpFunction* kernels;
  /// Room for the arguments of any one instruction.
  EValue** arguments;
  internal::ConstantData constants;
  uint32_t backward_jumps;
};

namespace {

/// What a method allocates, made by a Builder in one block.
struct Parts {
  EValue* values;
  bool* input_set;
  Chain* chains;
};

/// Makes the parts of a method. A second run, with a larger block, starts from the beginning.
class Builder final {
 public:
  Builder(
      const Program* program,
      const ExecutionPlan* plan,
      HierarchicalAllocator* planned_memory,
      Span<const Kernel> kernels,
      internal::ConstantData constants)
      : program_(program), plan_(plan), planned_memory_(planned_memory), kernels_(kernels), constants_(constants) {}

  Error run(Arena& arena, Parts& parts) const {
    const uint32_t value_count = length(plan_->values());
    parts.values = arena.take<EValue>(value_count);
    const bool makes_values = arena.fits();
    deserialization::TensorParser parser(program_, planned_memory_, arena, parts.values, value_count);
    for (uint32_t i = 0; i < value_count; ++i) {
      EValue counted;
      EValue* value = makes_values ? new (&parts.values[i]) EValue() : &counted;
      const Error error = parser.parse((*plan_->values())[i], value);
      if (error != Error::Ok) {
        ET_LOG(Error, "value %" PRIu32 " cannot be made", i);
        return error;
      }
    }
    const Error error = check_inputs();
    if (error != Error::Ok) {
      return error;
    }
    const uint32_t chain_count = length(plan_->chains());
    const uint32_t operator_count = length(plan_->operators());
    parts.chains = arena.take<Chain>(chain_count);
    OpFunction* operators = arena.take<OpFunction>(operator_count);
    const Error operator_error = find_kernels(operators, operator_count, arena.fits());
    if (operator_error != Error::Ok) {
      return operator_error;
    }
    uint32_t argument_count = 0;
    for (uint32_t i = 0; i < chain_count; ++i) {
      const auto* instructions = (*plan_->chains())[i]->instructions();
      const Error chain_error = check_instructions(instructions, value_count, &argument_count);
      if (chain_error != Error::Ok) {
        return chain_error;
      }
    }
    EValue** arguments = arena.take<EValue*>(argument_count);
    for (uint32_t i = 0; i < chain_count && arena.fits(); ++i) {
      parts.chains[i] = {(*plan_->chains())[i]->instructions(), operators, arguments, constants_, 0};
    }
    const uint32_t input_count = length(plan_->inputs());
    parts.input_set = arena.take<bool>(input_count);
    for (uint32_t i = 0; i < input_count && arena.fits(); ++i) {
      parts.input_set[i] = false;
    }
    return Error::Ok;
  }

 private:
  // An input is written to or made to point at the caller's data, so it must not be a constant.
  Error check_inputs() const {
    for (uint32_t i = 0; i < length(plan_->inputs()); ++i) {
      const auto* value = (*plan_->values())[static_cast<uint32_t>((*plan_->inputs())[i])];
      if (value->val_type() == executorch_flatbuffer::KernelTypes::Tensor) {
        const auto* tensor = static_cast<const executorch_flatbuffer::Tensor*>(value->val());
        ET_CHECK_OR_RETURN_ERROR(
            tensor->data_buffer_idx() == 0 || tensor->allocation_info() != nullptr,
            InvalidProgram,
            "input %" PRIu32 " is a constant",
            i);
      }
    }
    return Error::Ok;
  }

  Error find_kernels(OpFunction* operators, uint32_t count, bool fits) const {
    Error error = Error::Ok;
    for (uint32_t i = 0; i < count; ++i) {
      const auto* op = (*plan_->operators())[i];
      OpFunction kernel = internal::find_kernel(kernels_, i, view(op->name()), view(op->overload()));
      const bool has_keys = internal::has_kernel_with_key != nullptr &&
          internal::has_kernel_with_key(kernels_, view(op->name()), view(op->overload()));
      if (fits) {
        operators[i] = has_keys ? nullptr : kernel;
      }
      if (kernel == nullptr && !has_keys) {
        ET_LOG(
            Error,
            "no kernel for operator %s.%s: the image was built for another program; rebuild it with this program in the "
            "`programs` of its kernel_registry",
            op->name()->c_str(),
            op->overload() == nullptr ? "" : op->overload()->c_str());
        error = Error::OperatorMissing;
      }
    }
    return error;
  }

  // Checks every index in a chain's instructions; raises *argument_count to the largest number of arguments.
  Error check_instructions(
      const Vector<Offset<Instruction>>* instructions,
      uint32_t value_count,
      uint32_t* argument_count) const {
    using namespace executorch_flatbuffer;
    const uint32_t count = length(instructions);
    for (uint32_t i = 0; i < count; ++i) {
      const Instruction* instruction = (*instructions)[i];
      const flatbuffers::Table* content = instruction->instr_args();
      uint32_t highest_value = 0;
      switch (instruction->instr_args_type()) {
        case InstructionArguments::KernelCall: {
          const auto* call = static_cast<const KernelCall*>(content);
          ET_CHECK_OR_RETURN_ERROR(
              static_cast<uint32_t>(call->op_index()) < length(plan_->operators()),
              InvalidProgram,
              "instruction %" PRIu32 " calls operator %" PRId32 " of %" PRIu32,
              i,
              call->op_index(),
              length(plan_->operators()));
          const auto* args = call->args();
          const uint32_t arg_count = length(args);
          *argument_count = arg_count > *argument_count ? arg_count : *argument_count;
          for (uint32_t j = 0; j < arg_count; ++j) {
            const uint32_t value = static_cast<uint32_t>((*args)[j]);
            highest_value = value > highest_value ? value : highest_value;
          }
          break;
        }
        case InstructionArguments::MoveCall: {
          const auto* call = static_cast<const MoveCall*>(content);
          const uint32_t from = static_cast<uint32_t>(call->move_from());
          const uint32_t to = static_cast<uint32_t>(call->move_to());
          highest_value = from > to ? from : to;
          break;
        }
        case InstructionArguments::JumpFalseCall: {
          const auto* call = static_cast<const JumpFalseCall*>(content);
          highest_value = static_cast<uint32_t>(call->cond_value_index());
          ET_CHECK_OR_RETURN_ERROR(
              static_cast<uint32_t>(call->destination_instruction()) <= count,
              InvalidProgram,
              "instruction %" PRIu32 " jumps to instruction %" PRId32 " of %" PRIu32,
              i,
              call->destination_instruction(),
              count);
          break;
        }
        case InstructionArguments::FreeCall:
          highest_value = static_cast<uint32_t>(static_cast<const FreeCall*>(content)->value_index());
          break;
        default:
          ET_LOG(Error, "instruction %" PRIu32 " is of an unknown kind", i);
          return Error::InvalidProgram;
      }
      ET_CHECK_OR_RETURN_ERROR(
          highest_value < value_count,
          InvalidProgram,
          "instruction %" PRIu32 " refers to value %" PRIu32 " of %" PRIu32,
          i,
          highest_value,
          value_count);
    }
    return Error::Ok;
  }

  const Program* program_;
  const ExecutionPlan* plan_;
  HierarchicalAllocator* planned_memory_;
  Span<const Kernel> kernels_;
  internal::ConstantData constants_;
};

} // namespace

Result<Method> Method::load(
    ExecutionPlan* s_plan,
    const Program* program,
    MemoryManager* memory_manager,
    EventTracer* event_tracer,
    const NamedDataMap* named_data_map,
    const LoadBackendOptionsMap* backend_options,
    Span<const Kernel> kernel_registry) {
  ET_CHECK_OR_RETURN_ERROR(
      memory_manager != nullptr && memory_manager->method_allocator() != nullptr,
      InvalidArgument,
      "no method allocator to load the method with");
  Method method(program, memory_manager, event_tracer, memory_manager->temp_allocator(), kernel_registry);
  const Error error = method.init(s_plan, named_data_map, backend_options);
  if (error != Error::Ok) {
    return error;
  }
  return method;
}

Error Method::init(ExecutionPlan* s_plan, const NamedDataMap*, const LoadBackendOptionsMap*) {
  init_state_ = InitializationState::InitializationFailed;
  serialization_plan_ = s_plan;
  ET_CHECK_OR_RETURN_ERROR(
      length(s_plan->delegates()) == 0,
      NotSupported,
      "delegate not supported: %s",
      (*s_plan->delegates())[0]->id()->c_str());

  // Constants are either in their segment or within the flatbuffer.
  const FreeableBuffer& segment = program_->constant_segment_data_;
  const FreeableBuffer& constants = segment.size() != 0 ? segment : program_->program_data_;
  const Builder builder(
      program_,
      s_plan,
      memory_manager_->planned_memory(),
      kernel_registry_.empty() ? get_registered_kernels() : kernel_registry_,
      {reinterpret_cast<uintptr_t>(constants.data()), constants.size()});

  // Builds in the free memory of the allocator, and claims what that took. Allocators that aren't one block of memory are asked for
  // what was counted, and the parts made again.
  MemoryAllocator* allocator = memory_manager_->method_allocator();
  uint8_t* block = static_cast<uint8_t*>(allocator->allocate(0, Arena::kAlignment));
  size_t capacity =
      block != nullptr && block == allocator->base_address() + allocator->used_size() ? allocator->free_size() : 0;
  Parts parts;
  for (;;) {
    Arena arena(block, capacity);
    const Error error = builder.run(arena, parts);
    if (error != Error::Ok) {
      return error;
    }
    uint8_t* const claimed = static_cast<uint8_t*>(allocator->allocate(arena.used(), Arena::kAlignment));
    ET_CHECK_OR_RETURN_ERROR(
        claimed != nullptr,
        MemoryAllocationFailed,
        "the method needs %zu bytes of the method allocator, which has %zu left",
        arena.used(),
        allocator->free_size());
    if (claimed == block && arena.fits()) {
      break;
    }
    block = claimed;
    capacity = arena.used();
  }

  n_value_ = length(s_plan->values());
  values_ = parts.values;
  input_set_ = parts.input_set;
  n_chains_ = length(s_plan->chains());
  chains_ = parts.chains;
  init_state_ = InitializationState::Initialized;
  return Error::Ok;
}

// Values refer to memory of the allocators and of the program, so that there is nothing to free.
Method::~Method() = default;

size_t Method::inputs_size() const {
  return length(serialization_plan_->inputs());
}

size_t Method::outputs_size() const {
  return length(serialization_plan_->outputs());
}

size_t Method::get_input_index(size_t i) const {
  ET_CHECK_MSG(i < inputs_size(), "the method has no input %zu", i);
  return static_cast<size_t>((*serialization_plan_->inputs())[static_cast<uint32_t>(i)]);
}

size_t Method::get_output_index(size_t i) const {
  ET_CHECK_MSG(i < outputs_size(), "the method has no output %zu", i);
  return static_cast<size_t>((*serialization_plan_->outputs())[static_cast<uint32_t>(i)]);
}

const EValue& Method::get_value(size_t i) const {
  return values_[i];
}

EValue& Method::mutable_value(size_t i) {
  return values_[i];
}

const EValue& Method::get_input(size_t i) const {
  return get_value(get_input_index(i));
}

EValue& Method::mutable_input(size_t i) {
  EValue& input = mutable_value(get_input_index(i));
  // Who asks for this fills the input by itself.
  input_set_[i] = true;
  return input;
}

const EValue& Method::get_output(size_t i) const {
  return get_value(get_output_index(i));
}

EValue& Method::mutable_output(size_t i) {
  return mutable_value(get_output_index(i));
}

Error Method::set_input(const EValue& input_evalue, size_t input_idx) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      input_idx < inputs_size(), InvalidArgument, "the method has %zu inputs, and no input %zu", inputs_size(), input_idx);
  const size_t index =
      static_cast<size_t>((*serialization_plan_->inputs())[static_cast<uint32_t>(input_idx)]);
  const EValue& input = values_[index];
  ET_CHECK_OR_RETURN_ERROR(
      input.tag == input_evalue.tag,
      InvalidArgument,
      "input %zu is of type %" PRIu32 ", and the value given for it of type %" PRIu32,
      input_idx,
      static_cast<uint32_t>(input.tag),
      static_cast<uint32_t>(input_evalue.tag));
  switch (input.tag) {
    case Tag::Tensor: {
      const Tensor& target = input.payload.as_tensor;
      const Tensor& source = input_evalue.payload.as_tensor;
      ET_CHECK_OR_RETURN_ERROR(
          target.scalar_type() == source.scalar_type(),
          InvalidArgument,
          "input %zu has dtype %d, and the tensor given for it %d",
          input_idx,
          static_cast<int>(target.scalar_type()),
          static_cast<int>(source.scalar_type()));
      Error error = resize_tensor(target, source.sizes());
      ET_CHECK_OR_RETURN_ERROR(
          error == Error::Ok, InvalidArgument, "the tensor given for input %zu has another shape", input_idx);
      // A tensor made without a dim order has the default one.
      const auto dim_order = source.dim_order();
      const size_t dim = target.dim_order().size();
      ET_CHECK_OR_RETURN_ERROR(
          dim_order.data() == nullptr ? is_contiguous_dim_order(target.dim_order().data(), dim)
                                      : dim_order.equals(target.dim_order()),
          InvalidArgument,
          "the tensor given for input %zu has another dim order",
          input_idx);
      const auto* value = (*serialization_plan_->values())[static_cast<uint32_t>(index)];
      const bool is_planned = static_cast<const executorch_flatbuffer::Tensor*>(value->val())->allocation_info() != nullptr;
      error = is_planned ? internal::copy_tensor_data(target, source) : internal::share_tensor_data(target, source);
      if (error != Error::Ok) {
        return error;
      }
      break;
    }
    case Tag::None:
      break;
    case Tag::Int:
    case Tag::Double:
    case Tag::Bool: {
      // The export made the value a constant of the program.
      const auto& expected = input.payload.copyable_union;
      const auto& given = input_evalue.payload.copyable_union;
      ET_CHECK_OR_RETURN_ERROR(
          input.tag == Tag::Int          ? expected.as_int == given.as_int
              : input.tag == Tag::Double ? expected.as_double == given.as_double
                                         : expected.as_bool == given.as_bool,
          InvalidArgument,
          "input %zu is not the number that the model was exported with",
          input_idx);
      break;
    }
    default:
      ET_CHECK_OR_RETURN_ERROR(
          input.tag == Tag::String && input.toString() == input_evalue.toString(),
          InvalidArgument,
          "input %zu is not a value that the model was exported with",
          input_idx);
  }
  input_set_[input_idx] = true;
  return Error::Ok;
}

Error Method::set_inputs(const executorch::aten::ArrayRef<EValue>& input_evalues) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      input_evalues.size() == inputs_size(),
      InvalidArgument,
      "%zu values for %zu inputs",
      input_evalues.size(),
      inputs_size());
  for (size_t i = 0; i < input_evalues.size(); ++i) {
    const Error error = set_input(input_evalues[i], i);
    if (error != Error::Ok) {
      return error;
    }
  }
  return Error::Ok;
}

Error Method::set_output_data_ptr(void* buffer, size_t size, size_t output_idx) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      output_idx < outputs_size(), InvalidArgument, "the method has %zu outputs, and no output %zu", outputs_size(), output_idx);
  const size_t index = get_output_index(output_idx);
  const EValue& output = values_[index];
  const auto* value = (*serialization_plan_->values())[static_cast<uint32_t>(index)];
  ET_CHECK_OR_RETURN_ERROR(
      output.isTensor() && value->val_type() == executorch_flatbuffer::KernelTypes::Tensor,
      InvalidArgument,
      "output %zu is no tensor",
      output_idx);
  const auto* tensor = static_cast<const executorch_flatbuffer::Tensor*>(value->val());
  ET_CHECK_OR_RETURN_ERROR(
      tensor->allocation_info() == nullptr && tensor->data_buffer_idx() == 0,
      InvalidState,
      "output %zu has memory already, by the memory plan or as a constant",
      output_idx);
  const Tensor& target = output.payload.as_tensor;
  ET_CHECK_OR_RETURN_ERROR(
      reinterpret_cast<uintptr_t>(buffer) % static_cast<size_t>(target.element_size()) == 0,
      InvalidArgument,
      "the buffer for output %zu is misaligned",
      output_idx);
  return internal::set_tensor_data(target, buffer, size);
}

namespace {

Error copy_values(
    const EValue* values,
    const Vector<int32_t>* indices,
    EValue* out,
    size_t out_length) {
  const size_t count = length(indices);
  ET_CHECK_OR_RETURN_ERROR(
      out != nullptr && out_length >= count, InvalidArgument, "room for %zu values, of %zu", out_length, count);
  for (size_t i = 0; i < out_length; ++i) {
    out[i] = i < count ? values[(*indices)[static_cast<uint32_t>(i)]] : EValue();
  }
  return Error::Ok;
}

} // namespace

Error Method::get_outputs(EValue* output_evalues, size_t length) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  return copy_values(values_, serialization_plan_->outputs(), output_evalues, length);
}

Error Method::get_inputs(EValue* input_evalues, size_t length) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  for (size_t i = 0; i < inputs_size(); ++i) {
    // Who asks for these may fill them.
    input_set_[i] = true;
  }
  return copy_values(values_, serialization_plan_->inputs(), input_evalues, length);
}

Result<Tensor> Method::get_attribute(std::string_view name) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  for (uint32_t i = 0; i < n_value_; ++i) {
    const auto* value = (*serialization_plan_->values())[i];
    if (value->val_type() == executorch_flatbuffer::KernelTypes::Tensor) {
      const auto* info = static_cast<const executorch_flatbuffer::Tensor*>(value->val())->extra_tensor_info();
      if (info != nullptr && view(info->fully_qualified_name()) == name && values_[i].isTensor()) {
        return values_[i].payload.as_tensor;
      }
    }
  }
  ET_LOG(Error, "the method has no attribute %.*s", static_cast<int>(name.size()), name.data());
  return Error::NotFound;
}

MethodMeta Method::method_meta() const {
  const auto* name = serialization_plan_->name()->c_str();
  const Result<MethodMeta> meta = program_->method_meta(name);
  return *meta;
}

EventTracer* Method::get_event_tracer() {
  return event_tracer_;
}

namespace {

/// The truth of a condition: a flag, or a tensor of flags that must all be set.
Result<bool> is_true(const EValue& condition) {
  if (condition.isBool()) {
    return condition.payload.copyable_union.as_bool;
  }
  ET_CHECK_OR_RETURN_ERROR(
      condition.isTensor() && condition.payload.as_tensor.scalar_type() == executorch::aten::ScalarType::Bool,
      InvalidProgram,
      "a jump's condition is no flag");
  const Tensor& tensor = condition.payload.as_tensor;
  const uint8_t* flags = static_cast<const uint8_t*>(tensor.const_data_ptr());
  const size_t count = tensor.nbytes();
  ET_CHECK_OR_RETURN_ERROR(flags != nullptr || count == 0, InvalidState, "a jump's condition has no data");
  for (size_t i = 0; i < count; ++i) {
    if (flags[i] == 0) {
      return false;
    }
  }
  return true;
}

} // namespace

Error Method::execute_instruction() {
  using namespace executorch_flatbuffer;
  Chain& chain = chains_[step_state_.chain_idx];
  const Instruction* instruction = (*chain.instructions)[static_cast<uint32_t>(step_state_.instr_idx)];
  const flatbuffers::Table* content = instruction->instr_args();
  size_t next = step_state_.instr_idx + 1;
  switch (instruction->instr_args_type()) {
    case InstructionArguments::KernelCall: {
      const auto* call = static_cast<const KernelCall*>(content);
      const auto* args = call->args();
      const uint32_t count = length(args);
      for (uint32_t i = 0; i < count; ++i) {
        chain.arguments[i] = &values_[(*args)[i]];
      }
      const Span<EValue*> arguments(chain.arguments, count);
      const uint32_t operator_index = static_cast<uint32_t>(call->op_index());
      OpFunction kernel = chain.kernels[operator_index];
      if (kernel == nullptr) {
        const auto* op = (*serialization_plan_->operators())[operator_index];
        kernel = internal::find_kernel_for_arguments(
            kernel_registry_.empty() ? get_registered_kernels() : kernel_registry_,
            view(op->name()),
            view(op->overload()),
            arguments);
        ET_CHECK_OR_RETURN_ERROR(
            kernel != nullptr,
            OperatorMissing,
            "no kernel for the dtypes and dim orders of a call of operator %s",
            op->name()->c_str());
      }
      KernelRuntimeContext context(event_tracer_, temp_allocator_);
      kernel(context, arguments);
      if (temp_allocator_ != nullptr) {
        temp_allocator_->reset();
      }
      const Error error = context.failure_state();
      ET_CHECK_OK_OR_RETURN_ERROR(
          error,
          "instruction %zu failed: operator %s, error 0x%" PRIx32,
          step_state_.instr_idx,
          (*serialization_plan_->operators())[operator_index]->name()->c_str(),
          static_cast<uint32_t>(error));
      break;
    }
    case InstructionArguments::MoveCall: {
      const auto* call = static_cast<const MoveCall*>(content);
      values_[call->move_to()] = values_[call->move_from()];
      break;
    }
    case InstructionArguments::JumpFalseCall: {
      const auto* call = static_cast<const JumpFalseCall*>(content);
      const Result<bool> condition = is_true(values_[call->cond_value_index()]);
      if (!condition.ok()) {
        return condition.error();
      }
      if (!*condition) {
        const size_t destination = static_cast<size_t>(call->destination_instruction());
        ET_CHECK_OR_RETURN_ERROR(
            destination >= next || chain.backward_jumps++ < kMaxBackwardJumps,
            InvalidProgram,
            "a loop of the program does not end");
        next = destination;
      }
      break;
    }
    default: {
      // FreeCall, as all instructions were checked when the method was loaded.
      const EValue& value = values_[static_cast<const FreeCall*>(content)->value_index()];
      ET_CHECK_OR_RETURN_ERROR(value.isTensor(), InvalidProgram, "what is to be freed is no tensor");
      internal::reset_data_ptr(value.payload.as_tensor);
    }
  }
  step_state_.instr_idx = next;
  return Error::Ok;
}

Error Method::execute() {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      step_state_.chain_idx == 0 && step_state_.instr_idx == 0,
      InvalidState,
      "the method is being executed by steps; reset it first");
  for (size_t i = 0; i < inputs_size(); ++i) {
    ET_CHECK_OR_RETURN_ERROR(input_set_[i], InvalidState, "input %zu has not been set", i);
  }
  Error error = Error::Ok;
  for (; step_state_.chain_idx < n_chains_ && error == Error::Ok; step_state_ = {step_state_.chain_idx + 1, 0}) {
    Chain& chain = chains_[step_state_.chain_idx];
    chain.backward_jumps = 0;
    internal::constant_data = chain.constants;
    const size_t count = length(chain.instructions);
    while (step_state_.instr_idx < count && error == Error::Ok) {
      error = execute_instruction();
    }
  }
  internal::constant_data = {};
  step_state_ = {};
  return error;
}

namespace {

// Gives the next execution by steps the whole bound on its loops again.
void forget_jumps(Chain* chains, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    chains[i].backward_jumps = 0;
  }
}

} // namespace

Error Method::step() {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  // Chains without instructions are passed over.
  while (step_state_.chain_idx < n_chains_ &&
         step_state_.instr_idx >= length(chains_[step_state_.chain_idx].instructions)) {
    step_state_ = {step_state_.chain_idx + 1, 0};
  }
  if (step_state_.chain_idx >= n_chains_) {
    return Error::EndOfMethod;
  }
  internal::constant_data = chains_[step_state_.chain_idx].constants;
  const Error error = execute_instruction();
  internal::constant_data = {};
  if (error != Error::Ok) {
    step_state_ = {};
    forget_jumps(chains_, n_chains_);
  }
  return error;
}

Error Method::experimental_step() {
  return step();
}

bool Method::in_progress() const {
  return (step_state_.chain_idx != 0 || step_state_.instr_idx != 0) && step_state_.chain_idx < n_chains_ &&
      (step_state_.chain_idx + 1 < n_chains_ ||
       step_state_.instr_idx < length(chains_[step_state_.chain_idx].instructions));
}

Error Method::reset_execution() {
  ET_CHECK_OR_RETURN_ERROR(!in_progress(), InvalidState, "the method has instructions left to step through");
  step_state_ = {};
  forget_jumps(chains_, n_chains_);
  return Error::Ok;
}

Error Method::experimental_reset_execution() {
  return reset_execution();
}

} // namespace runtime
} // namespace executorch
