#include <executorch/runtime/executor/method.h>

#include <cinttypes>

// Experimental and deprecated methods of the public API are defined and called here.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include "runtime/backend/delegation.h"
#include "runtime/executor/arena.h"
#include "runtime/executor/execution_limit.h"
#include "runtime/executor/method_values.h"
#include "runtime/executor/optional_parts.h"
#include "runtime/executor/value_parser.h"
#include "runtime/kernel/constant_data.h"
#include "runtime/kernel/kernel_lookup.h"
#include "runtime/schema/program_reader.h"

namespace torch_fusion {

namespace {

TORCH_FUSION_THREAD_LOCAL uint32_t instruction_limit = kDefaultInstructionLimit;

} // namespace

void set_instruction_limit(uint32_t instructions) {
  instruction_limit = instructions;
}

} // namespace torch_fusion

namespace executorch::runtime {

namespace {

using executorch::aten::Tensor;
using executorch_flatbuffer::DelegateCall;
using executorch_flatbuffer::ExecutionPlan;
using executorch_flatbuffer::Instruction;
using executorch_flatbuffer::InstructionArguments;
using executorch_flatbuffer::KernelCall;
using executorch_flatbuffer::KernelTypes;
using flatbuffers::length;
using flatbuffers::load;
using flatbuffers::Offset;
using flatbuffers::Vector;
using flatbuffers::Verifier;
using flatbuffers::view;
using flatbuffers::View;
using internal::Arena;
using internal::Mark;
using Indices = Vector<int32_t>;

} // namespace

namespace internal {

TORCH_FUSION_THREAD_LOCAL ConstantData constant_data = {0, 0};

} // namespace internal

/**
 * A verified list of instructions, and the data that all chains of a method share; a method without
 * chains has an empty one.
 *
 * Instructions are decoded in place, in the program, as they are executed: a decoded form would
 * take RAM for each of their arguments.
 */
struct Chain {
  const Vector<Offset<Instruction>>* instructions;
  const Indices* inputs;
  const Indices* outputs;
  /// The kernel of each of the method's operators; nullptr for those whose kernels depend on their
  /// arguments.
  OpFunction* kernels;
  /// Room for the arguments of any one instruction.
  EValue** arguments;
  internal::ConstantData constants;
  /// Instructions that this execution has run so far; of the method's first chain.
  uint32_t instructions_run;
};

// tools/pipeline/link knows this size.
static_assert(sizeof(Chain) == 8 * sizeof(void*));

namespace {

/// True if a value is a tensor whose data is in the program.
bool is_constant(const EValue& value, const internal::ConstantData& constants) {
  return value.isTensor() &&
      reinterpret_cast<uintptr_t>(value.payload.as_tensor.const_data_ptr()) - constants.begin <
      constants.size;
}

/// The marks of a value, in the padding behind its tag.
uint8_t& marks_of(EValue& value) {
  static_assert(offsetof(EValue, tag) + sizeof(EValue::tag) < sizeof(EValue));
  return reinterpret_cast<uint8_t*>(&value + 1)[-1];
}

/// The allocations of a method, made by a Builder in one block.
struct Parts {
  EValue* values;
  /// For each input whether it has been set, then for each input whether it has planned memory.
  bool* input_flags;
  Chain* chains;
  uint32_t value_count;
  uint32_t chain_count;
};

/// Makes the parts of a method, once.
class Builder final {
 public:
  Builder(
      const Program* program,
      const FreeableBuffer& data,
      const ExecutionPlan* plan,
      HierarchicalAllocator* planned_memory,
      Span<const Kernel> kernels,
      internal::ConstantData constants)
      : program_(program),
        verifier_(data.data(), data.size()),
        plan_(plan),
        planned_memory_(planned_memory),
        kernels_(kernels),
        constants_(constants) {}

  Error run(Arena& arena, Parts& parts) {
    enum { kValues, kInputs, kOutputs, kChains, kOperators, kDelegates, kCount };
    static constexpr uint16_t kVectors[kCount] = {
        Verifier::kind<uint32_t>(ExecutionPlan::VT_VALUES),
        Verifier::kind<int32_t>(ExecutionPlan::VT_INPUTS),
        Verifier::kind<int32_t>(ExecutionPlan::VT_OUTPUTS),
        Verifier::kind<uint32_t>(ExecutionPlan::VT_CHAINS),
        Verifier::kind<uint32_t>(ExecutionPlan::VT_OPERATORS),
        Verifier::kind<uint32_t>(ExecutionPlan::VT_DELEGATES)};
    const void* vectors[kCount];
    ET_CHECK_OR_RETURN_ERROR(
        verifier_.vectors(plan_, kVectors, kCount, vectors),
        InvalidProgram,
        "the method is corrupted");
    values_ = static_cast<const Vector<Offset<executorch_flatbuffer::EValue>>*>(vectors[kValues]);
    const auto* chains =
        static_cast<const Vector<Offset<executorch_flatbuffer::Chain>>*>(vectors[kChains]);
    const auto* operators =
        static_cast<const Vector<Offset<executorch_flatbuffer::Operator>>*>(vectors[kOperators]);
    const auto* delegates =
        static_cast<const Vector<Offset<executorch_flatbuffer::BackendDelegate>>*>(
            vectors[kDelegates]);
    ET_CHECK_OR_RETURN_ERROR(
        internal::kHasDelegates || check_delegates(delegates),
        NotSupported,
        "the method needs a delegate");
    delegate_count_ = length(delegates);
    Error error = make_values(arena, parts);
    if (error != Error::Ok) {
      return error;
    }
    parts.chain_count = length(chains);
    parts.chains = arena.take<Chain>(parts.chain_count == 0 ? 1 : parts.chain_count);
    Chain first;
    first.instructions = nullptr;
    first.constants = constants_;
    first.instructions_run = 0;
    error = find_kernels(operators, arena, &first.kernels);
    if (error != Error::Ok) {
      return error;
    }
    if (arena.fits()) {
      made_values_ = parts.values;
      kernels_of_operators_ = first.kernels;
    }
    uint32_t argument_count = 0;
    error = read_chains(chains, arena, parts, first, argument_count);
    if (error != Error::Ok) {
      return error;
    }
    first.arguments = arena.take<EValue*>(argument_count);
    first.inputs = static_cast<const Indices*>(vectors[kInputs]);
    first.outputs = static_cast<const Indices*>(vectors[kOutputs]);
    error = make_inputs(first.inputs, arena, parts);
    if (error != Error::Ok) {
      return error;
    }
    for (uint32_t i = 0; i < length(first.outputs); ++i) {
      if (static_cast<uint32_t>((*first.outputs)[i]) >= value_count_) {
        verifier_.fail();
      }
    }
    if (arena.fits()) {
      // The last chain looked at was the first one.
      parts.chains[0] = first;
      for (uint32_t i = 1; i < parts.chain_count; ++i) {
        first.instructions = parts.chains[i].instructions;
        parts.chains[i] = first;
      }
    }
    ET_CHECK_OR_RETURN_ERROR(verifier_.ok(), InvalidProgram, "the method is corrupted");
    return Error::Ok;
  }

 private:
  // Reads the chains from the last one on, and leaves the first one's instructions in `first`.
  [[gnu::always_inline]] Error read_chains(
      const Vector<Offset<executorch_flatbuffer::Chain>>* chains,
      Arena& arena,
      Parts& parts,
      Chain& first,
      uint32_t& argument_count) {
    for (uint32_t i = parts.chain_count; i-- > 0;) {
      View chain;
      if (verifier_.open(*chains, i, chain)) {
        first.instructions = verifier_.vector<Offset<Instruction>>(
            chain, executorch_flatbuffer::Chain::VT_INSTRUCTIONS);
        const Error error = check_instructions(first.instructions, &argument_count);
        if (error != Error::Ok) {
          return error;
        }
        if (arena.fits()) {
          parts.chains[i].instructions = first.instructions;
        }
      }
    }
    return Error::Ok;
  }

  [[gnu::always_inline]] Error make_inputs(const Indices* inputs, Arena& arena, Parts& parts) {
    const uint32_t input_count = length(inputs);
    parts.input_flags = arena.take<bool>(2 * static_cast<size_t>(input_count));
    for (uint32_t i = 0; i < input_count; ++i) {
      const uint32_t index = static_cast<uint32_t>((*inputs)[i]);
      ET_CHECK_OR_RETURN_ERROR(
          index < value_count_,
          InvalidProgram,
          "input %" PRIu32 " is value %" PRIu32 " of %" PRIu32,
          i,
          index,
          value_count_);
      if (arena.fits()) {
        const EValue& input = parts.values[index];
        const void* data = input.isTensor() ? input.payload.as_tensor.const_data_ptr() : nullptr;
        // It is written to, or made to point at the caller's data.
        const Error error = mark(index, Mark::Input);
        ET_CHECK_OK_OR_RETURN_ERROR(error, "input %" PRIu32 " cannot be one", i);
        parts.input_flags[i] = false;
        parts.input_flags[input_count + i] = data != nullptr;
      }
    }
    return Error::Ok;
  }

  bool check_delegates(const Vector<Offset<executorch_flatbuffer::BackendDelegate>>* delegates) {
    using executorch_flatbuffer::BackendDelegate;
    for (uint32_t i = 0; i < length(delegates); ++i) {
      View delegate;
      ET_UNUSED const flatbuffers::String* id = verifier_.open(*delegates, i, delegate)
          ? verifier_.string(delegate, BackendDelegate::VT_ID)
          : nullptr;
      ET_LOG(Error, "delegate not supported: %s", id == nullptr ? "(corrupted)" : id->c_str());
    }
    return length(delegates) == 0;
  }

  Error make_values(Arena& arena, Parts& parts) {
    using executorch_flatbuffer::EValue;
    static_assert(EValue::VT_VAL_TYPE == 4 && EValue::VT_VAL == 6, "as open_union() expects");
    value_count_ = length(values_);
    parts.value_count = value_count_;
    parts.values = arena.take<runtime::EValue>(value_count_);
    const bool has_values = arena.fits();
    deserialization::TensorParser parser(
        program_, planned_memory_, verifier_, arena, parts.values, value_count_);
    for (uint32_t i = 0; i < value_count_; ++i) {
      View content;
      uint8_t type;
      ET_CHECK_OR_RETURN_ERROR(
          verifier_.open_union(*values_, i, &type, content),
          InvalidProgram,
          "value %" PRIu32 " is corrupted",
          i);
      const Error error = parser.parse(
          static_cast<KernelTypes>(type), content, has_values ? &parts.values[i] : nullptr);
      if (error != Error::Ok) {
        ET_LOG(Error, "value %" PRIu32 " cannot be made", i);
        return error;
      }
      if (has_values) {
        marks_of(parts.values[i]) = 0;
      }
    }
    return Error::Ok;
  }

  Error find_kernels(
      const Vector<Offset<executorch_flatbuffer::Operator>>* operators,
      Arena& arena,
      OpFunction** kernels) {
    using executorch_flatbuffer::Operator;
    operator_count_ = length(operators);
    *kernels = arena.take<OpFunction>(operator_count_);
    Error error = Error::Ok;
    for (uint32_t i = 0; i < operator_count_; ++i) {
      View op;
      const auto* name =
          verifier_.open(*operators, i, op) ? verifier_.string(op, Operator::VT_NAME) : nullptr;
      ET_CHECK_OR_RETURN_ERROR(
          name != nullptr, InvalidProgram, "operator %" PRIu32 " is corrupted", i);
      const auto* overload = verifier_.string(op, Operator::VT_OVERLOAD);
      const OpFunction kernel = internal::find_kernel(kernels_, i, name->view(), view(overload));
      const bool has_keys = internal::has_kernel_with_key != nullptr &&
          internal::has_kernel_with_key(kernels_, name->view(), view(overload));
      if (arena.fits()) {
        (*kernels)[i] = has_keys ? nullptr : kernel;
      }
      if (kernel == nullptr && !has_keys) {
        ET_LOG(
            Error,
            "no kernel for operator %s.%s: the image was built for another program; rebuild it "
            "with this program in the "
            "`programs` of its kernel_registry",
            name->c_str(),
            overload == nullptr ? "" : overload->c_str());
        // Goes on, so that all operators without a kernel are named.
        error = Error::OperatorMissing;
      }
    }
    return error;
  }

  // Checks a chain's instructions, all of their indices, and the values that they change; raises
  // *argument_count to the largest number of arguments.
  [[gnu::noinline]] Error check_instructions(
      const Vector<Offset<Instruction>>* instructions,
      uint32_t* argument_count) {
    using namespace executorch_flatbuffer;
    static_assert(
        Instruction::VT_INSTR_ARGS_TYPE == 4 && Instruction::VT_INSTR_ARGS == 6,
        "as open_union() expects");
    // All kinds have at most two fields, and all but a kernel call's arguments are 32-bit numbers:
    // reading them at one location takes less flash than separately for each kind.
    constexpr uint32_t kFirst = 4;
    constexpr uint32_t kSecond = 6;
    static_assert(
        KernelCall::VT_OP_INDEX == kFirst && MoveCall::VT_MOVE_FROM == kFirst &&
            MoveCall::VT_MOVE_TO == kSecond && JumpFalseCall::VT_COND_VALUE_INDEX == kFirst &&
            JumpFalseCall::VT_DESTINATION_INSTRUCTION == kSecond &&
            FreeCall::VT_VALUE_INDEX == kFirst,
        "as the schema numbers them");
    const uint32_t count = length(instructions);
    for (uint32_t i = 0; i < count; ++i) {
      View content;
      uint8_t type;
      ET_CHECK_OR_RETURN_ERROR(
          verifier_.open_union(*instructions, i, &type, content),
          InvalidProgram,
          "instruction %" PRIu32 " is corrupted",
          i);
      const uint32_t first = content.scalar<uint32_t>(kFirst);
      const uint32_t second = content.scalar<uint32_t>(kSecond);
      uint32_t highest_value = first;
      const Indices* args = nullptr;
      switch (static_cast<InstructionArguments>(type)) {
        case InstructionArguments::KernelCall: {
          args = verifier_.vector<int32_t>(content, KernelCall::VT_ARGS);
          // decode_call() relies on all of this.
          ET_CHECK_OR_RETURN_ERROR(
              args != nullptr && first < operator_count_ &&
                  content.is_sound(KernelCall::VT_OP_INDEX, sizeof(uint32_t)),
              InvalidProgram,
              "instruction %" PRIu32 " calls operator %" PRIu32 " of %" PRIu32,
              i,
              first,
              operator_count_);
          highest_value = 0;
          const uint32_t args_count = args->size();
          *argument_count = args_count > *argument_count ? args_count : *argument_count;
          for (uint32_t j = 0; j < args_count; ++j) {
            const uint32_t value = static_cast<uint32_t>((*args)[j]);
            highest_value = value > highest_value ? value : highest_value;
          }
          break;
        }
        case InstructionArguments::MoveCall:
          highest_value = first > second ? first : second;
          break;
        case InstructionArguments::JumpFalseCall:
          ET_CHECK_OR_RETURN_ERROR(
              second <= count,
              InvalidProgram,
              "instruction %" PRIu32 " jumps to instruction %" PRIu32 " of %" PRIu32,
              i,
              second,
              count);
          break;
        case InstructionArguments::FreeCall:
          break;
        case InstructionArguments::DelegateCall:
          if (internal::kHasDelegates) {
            highest_value = 0;
            const Error error = internal::check_delegate_call(
                verifier_, content, delegate_count_, &highest_value, argument_count);
            if (error != Error::Ok) {
              return error;
            }
            break;
          }
          [[fallthrough]];
        default:
          ET_LOG(Error, "instruction %" PRIu32 " is of an unknown kind", i);
          return Error::InvalidProgram;
      }
      ET_CHECK_OR_RETURN_ERROR(
          highest_value < value_count_,
          InvalidProgram,
          "instruction %" PRIu32 " refers to value %" PRIu32 " of %" PRIu32,
          i,
          highest_value,
          value_count_);
      if (made_values_ != nullptr) {
        const Error error =
            check_effects(static_cast<InstructionArguments>(type), args, first, second);
        ET_CHECK_OK_OR_RETURN_ERROR(error, "instruction %" PRIu32 " cannot run", i);
      }
    }
    return Error::Ok;
  }

  // Checks conditions that execution relies on: an input keeps its memory, a constant stays the one
  // that its kernel has checked, and a tensor stays a tensor. Only instructions that give values
  // other contents, or tensors other memory, could violate them. The contents of constants that
  // kernels rely on are checked, too. `first` and `second` are the instruction's fields.
  [[gnu::always_inline]] Error
  check_effects(InstructionArguments type, const Indices* args, uint32_t first, uint32_t second) {
    if (type == InstructionArguments::KernelCall) {
      return check_call(*args, first);
    }
    if (type == InstructionArguments::FreeCall) {
      return mark(first, Mark::Relocated);
    }
    if (type != InstructionArguments::MoveCall) {
      return Error::Ok;
    }
    const EValue& source = made_values_[first];
    const EValue& target = made_values_[second];
    // Readers of a tensor rely on the program's declaration of it.
    ET_CHECK_OR_RETURN_ERROR(
        !target.isTensor() ||
            (source.isTensor() &&
             source.payload.as_tensor.scalar_type() == target.payload.as_tensor.scalar_type() &&
             source.payload.as_tensor.dim() == target.payload.as_tensor.dim()),
        InvalidProgram,
        "it moves what is no such tensor to a tensor");
    return mark(second, Mark::Replaced);
  }

  [[gnu::noinline]] Error check_call(const Indices& args, uint32_t op) {
    Error error = Error::Ok;
    for (const internal::CheckedArgument& checked : internal::kOptionalParts.checked_arguments) {
      if (checked.kernel != kernels_of_operators_[op] || checked.position >= args.size()) {
        continue;
      }
      const uint32_t index = static_cast<uint32_t>(args[checked.position]);
      const EValue& value = made_values_[index];
      ET_CHECK_OR_RETURN_ERROR(
          checked.mark != Mark::Replaced || !value.isTensor(),
          InvalidProgram,
          "it makes a tensor, value %" PRIu32 ", a number",
          index);
      error = mark(index, checked.mark);
      if (error == Error::Ok && checked.mark == Mark::Packed) {
        error = internal::check_packed(value.payload.as_tensor);
      }
      ET_CHECK_OK_OR_RETURN_ERROR(
          error,
          "argument %u of operator %s is wrong",
          static_cast<unsigned>(checked.position),
          (*plan_.as<ExecutionPlan>()->operators())[op]->name()->c_str());
    }
    return error;
  }

  // Records the use of a value: two different uses would contradict each other's assumptions.
  [[gnu::noinline]] Error mark(uint32_t index, Mark mark) {
    EValue& value = made_values_[index];
    const unsigned marks = marks_of(value) | static_cast<unsigned>(mark);
    marks_of(value) = static_cast<uint8_t>(marks);
    ET_CHECK_OR_RETURN_ERROR(
        (marks & (marks - 1)) == 0 && is_constant(value, constants_) == (mark >= Mark::Constant),
        InvalidProgram,
        "value %" PRIu32 " %s",
        index,
        mark >= Mark::Constant ? "has to be a constant"
                               : "changes what must stay: an input, a constant, or the memory of "
                                 "a tensor that a move shares");
    return Error::Ok;
  }

  const Program* program_;
  Verifier verifier_;
  View plan_;
  HierarchicalAllocator* planned_memory_;
  Span<const Kernel> kernels_;
  internal::ConstantData constants_;
  const Vector<Offset<executorch_flatbuffer::EValue>>* values_ = nullptr;
  uint32_t value_count_ = 0;
  uint32_t operator_count_ = 0;
  uint32_t delegate_count_ = 0;
  // Both are nullptr as long as there is no room for them.
  EValue* made_values_ = nullptr;
  const OpFunction* kernels_of_operators_ = nullptr;
};

// Address of a field that a table is known to have.
[[gnu::always_inline]] inline const uint8_t* known_field(const void* table, uint32_t place) {
  const uint8_t* start = static_cast<const uint8_t*>(table);
  const uint8_t* vtable = start - load<int32_t>(start);
  return start + load<uint16_t>(vtable + place);
}

[[gnu::always_inline]] inline const uint8_t* known_target(const void* table, uint32_t place) {
  const uint8_t* reference = known_field(table, place);
  return reference + load<uint32_t>(reference);
}

// Decodes an instruction whose type and arguments Builder::check_instructions() has verified.
[[gnu::always_inline]] inline const flatbuffers::Table* decode(
    const Instruction* instruction,
    InstructionArguments* type) {
  *type = load<InstructionArguments>(known_field(instruction, Instruction::VT_INSTR_ARGS_TYPE));
  return reinterpret_cast<const flatbuffers::Table*>(
      known_target(instruction, Instruction::VT_INSTR_ARGS));
}

// Decodes a kernel call that Builder::check_instructions() has verified to have arguments.
[[gnu::always_inline]] inline const Indices& decode_call(
    const void* call,
    uint32_t* operator_index) {
  static_assert(
      KernelCall::VT_OP_INDEX < KernelCall::VT_ARGS, "the vtable holds both if it holds the last");
  const uint8_t* field = known_field(call, KernelCall::VT_OP_INDEX);
  // An index of 0 need not be stored.
  *operator_index = field == call ? 0 : load<uint32_t>(field);
  return *reinterpret_cast<const Indices*>(known_target(call, KernelCall::VT_ARGS));
}

/// The arguments of a call, in the room that its chain has for them.
Span<EValue*> gather_arguments(const Chain& chain, const Indices& indices, EValue* values) {
  const int32_t* index = indices.data();
  EValue** const end = chain.arguments + indices.size();
  EValue** argument = chain.arguments;
  // An operator without arguments is rare: the loop is tested at its end.
  if (argument != end) {
    do {
      *argument++ = &values[*index++];
    } while (argument != end);
  }
  return {chain.arguments, end};
}

/**
 * Jumps, if its condition is false.
 *
 * @param[in,out] next The instruction that is executed next.
 */
Error jump(const executorch_flatbuffer::JumpFalseCall& call, const EValue* values, size_t* next) {
  const Result<bool> condition = internal::is_true(values[call.cond_value_index()]);
  if (!condition.ok()) {
    return condition.error();
  }
  if (!*condition) {
    *next = static_cast<size_t>(call.destination_instruction());
  }
  return Error::Ok;
}

/// Every output that is a tensor has memory. Builder::check_effects() has made sure that values
/// meant as tensors are tensors.
Error check_outputs(const Chain& first, const EValue* values) {
  for (uint32_t i = 0; i < length(first.outputs); ++i) {
    const EValue& value = values[(*first.outputs)[i]];
    ET_CHECK_OR_RETURN_ERROR(
        !value.isTensor() || internal::has_memory(value.payload.as_tensor),
        InvalidState,
        "output %" PRIu32 " has no memory: the program gave it up, or nobody gave it any",
        i);
  }
  return Error::Ok;
}

} // namespace

Error Method::init(
    ExecutionPlan* s_plan,
    [[maybe_unused]] const NamedDataMap* named_data_map,
    const LoadBackendOptionsMap*) {
  init_state_ = InitializationState::InitializationFailed;
  serialization_plan_ = s_plan;
  // Constants are either in their segment or within the flatbuffer.
  const FreeableBuffer& segment = program_->constant_segment_data_;
  const FreeableBuffer& constants = segment.size() != 0 ? segment : program_->program_data_;
  // Builds in the free memory of the allocator, and then allocates what that took. Allocators that
  // aren't one block of memory get the counted requests, and the parts are built again.
  MemoryAllocator* allocator = memory_manager_->method_allocator();
  uint8_t* block = allocator->base_address();
  size_t capacity = 0;
  if (block != nullptr) {
    block += allocator->used_size();
    capacity = allocator->free_size();
    const size_t padding = -reinterpret_cast<uintptr_t>(block) & (Arena::kAlignment - 1);
    block += padding;
    capacity -= padding < capacity ? padding : capacity;
  }
  Parts parts;
  for (bool is_claimed = false;; is_claimed = true) {
    Arena arena(block, capacity);
    Builder builder(
        program_,
        program_->program_data_,
        s_plan,
        memory_manager_->planned_memory(),
        kernel_registry_.empty() ? get_registered_kernels() : kernel_registry_,
        {reinterpret_cast<uintptr_t>(constants.data()), constants.size()});
    const Error error = builder.run(arena, parts);
    if (error != Error::Ok) {
      return error;
    }
    if (is_claimed) {
      break;
    }
    capacity = arena.used();
    uint8_t* const claimed =
        static_cast<uint8_t*>(allocator->allocate(capacity, Arena::kAlignment));
    ET_CHECK_OR_RETURN_ERROR(
        claimed != nullptr,
        MemoryAllocationFailed,
        "the method needs %zu bytes of the method allocator, which has %zu left",
        capacity,
        allocator->free_size());
    if (claimed == block && arena.fits()) {
      break;
    }
    block = claimed;
  }

  n_value_ = parts.value_count;
  values_ = parts.values;
  input_set_ = parts.input_flags;
  n_chains_ = parts.chain_count;
  chains_ = parts.chains;
  if (internal::kHasDelegates && length(s_plan->delegates()) != 0) {
    const Error error = internal::init_delegates(
        *program_,
        program_->program_data_,
        s_plan,
        BackendInitContext(allocator, event_tracer_, s_plan->name()->c_str(), named_data_map),
        &delegates_,
        &n_delegate_);
    if (error != Error::Ok) {
      return error;
    }
  }
  init_state_ = InitializationState::Initialized;
  return Error::Ok;
}

size_t Method::inputs_size() const {
  return initialized() ? length(chains_->inputs) : 0;
}

size_t Method::outputs_size() const {
  return initialized() ? length(chains_->outputs) : 0;
}

size_t Method::get_input_index(size_t i) const {
  ET_CHECK_MSG(i < inputs_size(), "the method has no input %zu", i);
  return static_cast<size_t>((*chains_->inputs)[static_cast<uint32_t>(i)]);
}

size_t Method::get_output_index(size_t i) const {
  ET_CHECK_MSG(i < outputs_size(), "the method has no output %zu", i);
  return static_cast<size_t>((*chains_->outputs)[static_cast<uint32_t>(i)]);
}

bool internal::has_own_memory(const ExecutionPlan* plan, size_t index) {
  const auto* value = (*plan->values())[static_cast<uint32_t>(index)];
  if (value->val_type() != executorch_flatbuffer::KernelTypes::Tensor) {
    // The output is a list's element after a move.
    return true;
  }
  const auto* tensor = static_cast<const executorch_flatbuffer::Tensor*>(value->val());
  return tensor->allocation_info() != nullptr || tensor->data_buffer_idx() != 0;
}

Result<Tensor> Method::get_attribute(std::string_view name) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  for (uint32_t i = 0; i < n_value_; ++i) {
    const auto* value = (*serialization_plan_->values())[i];
    if (value->val_type() == executorch_flatbuffer::KernelTypes::Tensor) {
      const auto* info =
          static_cast<const executorch_flatbuffer::Tensor*>(value->val())->extra_tensor_info();
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

Error Method::execute_instruction() {
  using namespace executorch_flatbuffer;
  ET_CHECK_OR_RETURN_ERROR(
      chains_->instructions_run++ < torch_fusion::instruction_limit,
      InvalidProgram,
      "a loop of the program does not end: it runs more than %" PRIu32 " instructions",
      torch_fusion::instruction_limit);
  Chain& chain = chains_[step_state_.chain_idx];
  const Instruction* instruction =
      (*chain.instructions)[static_cast<uint32_t>(step_state_.instr_idx)];
  InstructionArguments type;
  const flatbuffers::Table* content = decode(instruction, &type);
  size_t next = step_state_.instr_idx + 1;
  switch (type) {
    case InstructionArguments::KernelCall: {
      uint32_t operator_index;
      const Span<EValue*> arguments =
          gather_arguments(chain, decode_call(content, &operator_index), values_);
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
      const Error error = jump(*static_cast<const JumpFalseCall*>(content), values_, &next);
      if (error != Error::Ok) {
        return error;
      }
      break;
    }
    case InstructionArguments::DelegateCall:
      if (internal::kHasDelegates) {
        const auto* call = static_cast<const DelegateCall*>(content);
        const Span<EValue*> arguments = gather_arguments(chain, *call->args(), values_);
        const Error error = internal::execute_delegate(
            delegates_[call->delegate_index()],
            {event_tracer_, temp_allocator_, serialization_plan_->name()->c_str()},
            temp_allocator_,
            arguments);
        ET_CHECK_OK_OR_RETURN_ERROR(
            error,
            "instruction %zu failed: delegate %d, error 0x%" PRIx32,
            step_state_.instr_idx,
            static_cast<int>(call->delegate_index()),
            static_cast<uint32_t>(error));
        break;
      }
      [[fallthrough]];
    default: {
      // FreeCall, as all instructions were checked when the method was loaded.
      const EValue& value = values_[static_cast<const FreeCall*>(content)->value_index()];
      ET_CHECK_OR_RETURN_ERROR(
          value.isTensor(), InvalidProgram, "what is to be freed is no tensor");
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
  chains_->instructions_run = 0;
  Error error;
  do {
    error = step();
  } while (error == Error::Ok);
  // A kernel may fail with any error, which also resets the steps.
  const bool is_at_end = step_state_.chain_idx >= n_chains_;
  step_state_ = {};
  return error == Error::EndOfMethod && is_at_end ? Error::Ok : error;
}

Error Method::step() {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  // Chains without instructions are passed over.
  while (step_state_.chain_idx < n_chains_ &&
         step_state_.instr_idx >= length(chains_[step_state_.chain_idx].instructions)) {
    step_state_ = {step_state_.chain_idx + 1, 0};
  }
  if (step_state_.chain_idx >= n_chains_) {
    const Error error = check_outputs(*chains_, values_);
    return error == Error::Ok ? Error::EndOfMethod : error;
  }
  internal::constant_data = chains_->constants;
  const Error error = execute_instruction();
  internal::constant_data = {};
  if (error != Error::Ok) {
    step_state_ = {};
    chains_->instructions_run = 0;
  }
  return error;
}

bool Method::in_progress() const {
  return (step_state_.chain_idx != 0 || step_state_.instr_idx != 0) &&
      step_state_.chain_idx < n_chains_ &&
      (step_state_.chain_idx + 1 < n_chains_ ||
       step_state_.instr_idx < length(chains_[step_state_.chain_idx].instructions));
}

Error Method::reset_execution() {
  ET_CHECK_OR_RETURN_ERROR(
      !in_progress(), InvalidState, "the method has instructions left to step through");
  step_state_ = {};
  if (initialized()) {
    chains_->instructions_run = 0;
  }
  return Error::Ok;
}

} // namespace executorch::runtime
