#include <executorch/runtime/executor/method.h>

#include <cinttypes>
#include <cstring>

// Experimental and deprecated methods of the public API are defined and called here.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include "runtime/backend/delegation.h"
#include "runtime/executor/method_values.h"
#include "runtime/kernel/constant_data.h"
#include "runtime/kernel/static_kernels.h"
#include "runtime/prelinked/plan.h"

namespace executorch {
namespace runtime {

using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using internal::prelinked_method;
using internal::PrelinkedIntList;
using internal::PrelinkedList;
using internal::PrelinkedMethod;
using internal::PrelinkedState;
using internal::PrelinkedTensor;
using internal::PrelinkedValue;

// The tables are in the form of these classes, whose fields are private.
static_assert(sizeof(EValue) == sizeof(PrelinkedValue) && offsetof(EValue, tag) == 8);
static_assert(sizeof(TensorImpl) == sizeof(PrelinkedTensor));
static_assert(sizeof(BoxedEvalueList<int64_t>) == sizeof(PrelinkedIntList));

namespace internal {

// Constants are never outputs: the build has checked it.
TORCH_FUSION_THREAD_LOCAL ConstantData constant_data = {0, 0};

} // namespace internal

/// What a method needs beside its values.
struct Chain {
  uint32_t backward_jumps;
  /// Room for the arguments of any one instruction.
  EValue** arguments;
};

namespace {

/// What loops a method may run: jumps back to an earlier instruction, in one execution. A program's
/// loops end by themselves; the build has seen those of this one.
constexpr uint32_t kMaxBackwardJumps = 1u << 20;

/// The value that a reference of a program's tables means.
[[gnu::always_inline]] inline EValue* resolve(EValue* values, uintptr_t reference) {
  return (reference & PrelinkedMethod::kInRam) != 0
      ? reinterpret_cast<EValue*>(
            reinterpret_cast<uint8_t*>(values) + (reference - PrelinkedMethod::kInRam))
      : reinterpret_cast<EValue*>(reference);
}

/// Takes memory from the front of a block.
template <typename T>
T* take(uint8_t*& block, size_t count) {
  T* const start = reinterpret_cast<T*>(block);
  block += count * sizeof(T);
  return start;
}

/// Makes a tensor in RAM of its template.
Error make_tensor(
    const PrelinkedTensor& tensor,
    HierarchicalAllocator* planned_memory,
    uint8_t*& shapes,
    TensorImpl* impl) {
  PrelinkedTensor& copy = *reinterpret_cast<PrelinkedTensor*>(impl);
  copy = tensor;
  if (tensor.memory() != 0) {
    // That the buffers are large enough has been checked.
    const Result<void*> data =
        planned_memory->get_offset_address(tensor.memory() - 1, tensor.offset(), 0);
    if (!data.ok()) {
      return data.error();
    }
    copy.data = static_cast<decltype(copy.data)>(reinterpret_cast<uintptr_t>(*data));
  }
  if (tensor.dynamism != TensorShapeDynamism::STATIC) {
    const size_t dim = static_cast<size_t>(tensor.dim);
    int32_t* const sizes = take<int32_t>(shapes, dim);
    int32_t* const strides = take<int32_t>(shapes, dim);
    for (size_t i = 0; i < dim; ++i) {
      sizes[i] = tensor.sizes[i];
      strides[i] = tensor.strides[i];
    }
    copy.sizes = sizes;
    copy.strides = strides;
  }
  return Error::Ok;
}

template <typename T>
void make_list(const PrelinkedList& list, EValue* values, uint8_t*& block, EValue* out) {
  T* const elements = take<T>(block, list.size);
  auto* const boxed = take<BoxedEvalueList<T>>(block, 1);
  EValue** const references = take<EValue*>(block, list.size);
  for (size_t i = 0; i < list.size; ++i) {
    references[i] = resolve(values, list.elements[i]);
  }
  new (out) EValue(new (boxed) BoxedEvalueList<T>(references, elements, list.size));
  block += -reinterpret_cast<uintptr_t>(block) & (alignof(int64_t) - 1);
}

} // namespace

Error Method::init(
    executorch_flatbuffer::ExecutionPlan* s_plan,
    [[maybe_unused]] const NamedDataMap* named_data_map,
    const LoadBackendOptionsMap*) {
  init_state_ = InitializationState::InitializationFailed;
  const PrelinkedMethod& method = prelinked_method(s_plan);
  serialization_plan_ = s_plan;
  ET_CHECK_OR_RETURN_ERROR(
      kernel_registry_.empty(),
      NotSupported,
      "the program was linked with its kernels at build time, and takes no other ones");
  HierarchicalAllocator* const planned_memory = memory_manager_->planned_memory();
  for (uint32_t i = 0; i < method.planned_count; ++i) {
    ET_CHECK_OR_RETURN_ERROR(
        planned_memory != nullptr &&
            planned_memory->get_offset_address(i, 0, method.planned_sizes[i]).ok(),
        MemoryAllocationFailed,
        "the method needs %" PRIu32 " bytes in memory-planned buffer %" PRIu32,
        method.planned_sizes[i],
        i);
  }
  const size_t value_count =
      static_cast<size_t>(method.tensor_count) + method.value_count + method.list_count;
  const size_t size = value_count * sizeof(EValue) + method.lists_size +
      method.tensor_count * sizeof(TensorImpl) + method.shapes_size +
      method.argument_count() * sizeof(EValue*) + sizeof(Chain) +
      2 * static_cast<size_t>(method.input_count);
  MemoryAllocator* const allocator = memory_manager_->method_allocator();
  uint8_t* block = static_cast<uint8_t*>(allocator->allocate(size, alignof(EValue)));
  ET_CHECK_OR_RETURN_ERROR(
      block != nullptr,
      MemoryAllocationFailed,
      "the method needs %zu bytes of the method allocator, which has %zu left",
      size,
      allocator->free_size());
  values_ = take<EValue>(block, value_count);
  n_value_ = value_count;
  uint8_t* lists = take<uint8_t>(block, method.lists_size);
  TensorImpl* impl = take<TensorImpl>(block, method.tensor_count);
  uint8_t* shapes = take<uint8_t>(block, method.shapes_size);
  EValue** const arguments = take<EValue*>(block, method.argument_count());
  chains_ = take<Chain>(block, 1);
  n_chains_ = 1;
  *chains_ = {0, arguments};
  input_set_ = take<bool>(block, 2 * static_cast<size_t>(method.input_count));

  EValue* value = values_;
  for (const PrelinkedTensor *tensor = method.tensors, *end = tensor + method.tensor_count;
       tensor != end;
       ++tensor) {
    const Error error = make_tensor(*tensor, planned_memory, shapes, impl);
    if (error != Error::Ok) {
      return error;
    }
    new (value++) EValue(Tensor(impl++));
  }
  for (uint32_t i = 0; i < method.value_count; ++i) {
    *reinterpret_cast<PrelinkedValue*>(value++) = method.values[i];
  }
  for (uint32_t i = 0; i < method.list_count; ++i, ++value) {
    const PrelinkedList& list = method.lists[i];
    switch (static_cast<Tag>(list.tag)) {
      case Tag::ListInt:
        make_list<int64_t>(list, values_, lists, value);
        break;
      case Tag::ListTensor:
        make_list<Tensor>(list, values_, lists, value);
        break;
      default:
        make_list<std::optional<Tensor>>(list, values_, lists, value);
    }
  }
  // The compiler does not know that these are EValue and TensorImpl now.
  __asm__ volatile("" ::: "memory");
  for (uint32_t i = 0; i < method.state_count; ++i) {
    const PrelinkedState& state = method.states[i];
    std::memcpy(
        values_[state.value].payload.as_tensor.mutable_data_ptr(), state.data, state.nbytes);
  }
  for (uint32_t i = 0; i < method.input_count; ++i) {
    const EValue& input = values_[method.inputs[i]];
    input_set_[i] = false;
    input_set_[method.input_count + i] =
        input.isTensor() && input.payload.as_tensor.const_data_ptr() != nullptr;
  }
  if (internal::kHasDelegates && method.delegate_count() != 0) {
    const Error error = internal::init_delegates(
        *program_,
        program_->program_data_,
        s_plan,
        BackendInitContext(allocator, event_tracer_, method.name, named_data_map),
        &delegates_,
        &n_delegate_);
    if (error != Error::Ok) {
      return error;
    }
  }
  init_state_ = InitializationState::Initialized;
  return Error::Ok;
}

bool internal::has_own_memory(const executorch_flatbuffer::ExecutionPlan* plan, size_t index) {
  const PrelinkedMethod& method = prelinked_method(plan);
  return index >= method.tensor_count || method.tensors[index].memory() != 0;
}

size_t Method::inputs_size() const {
  return initialized() ? prelinked_method(serialization_plan_).input_count : 0;
}

size_t Method::outputs_size() const {
  return initialized() ? prelinked_method(serialization_plan_).output_count : 0;
}

size_t Method::get_input_index(size_t i) const {
  ET_CHECK_MSG(i < inputs_size(), "the method has no input %zu", i);
  return prelinked_method(serialization_plan_).inputs[i];
}

size_t Method::get_output_index(size_t i) const {
  ET_CHECK_MSG(i < outputs_size(), "the method has no output %zu", i);
  return prelinked_method(serialization_plan_).outputs()[i];
}

Result<Tensor> Method::get_attribute(std::string_view name) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  const PrelinkedMethod& method = prelinked_method(serialization_plan_);
  for (uint32_t i = 0; i < method.attribute_count; ++i) {
    if (name == method.attributes[i].name) {
      return resolve(values_, method.attributes[i].value)->payload.as_tensor;
    }
  }
  ET_LOG(Error, "the method has no attribute %.*s", static_cast<int>(name.size()), name.data());
  return Error::NotFound;
}

MethodMeta Method::method_meta() const {
  return *program_->method_meta(prelinked_method(serialization_plan_).name);
}

Error Method::execute_instruction() {
  const PrelinkedMethod& method = prelinked_method(serialization_plan_);
  const uintptr_t* word = method.code + step_state_.instr_idx;
  const uintptr_t head = *word++;
  switch (head & 3) {
    case PrelinkedMethod::kCall: {
      EValue** const arguments = chains_->arguments;
      const size_t count =
          (head & ((1u << PrelinkedMethod::kKernelBit) - 1)) >> PrelinkedMethod::kCountBit;
      for (size_t i = 0; i < count; ++i) {
        arguments[i] = resolve(values_, *word++);
      }
      const size_t kernel = head >> PrelinkedMethod::kKernelBit;
      KernelRuntimeContext context(event_tracer_, temp_allocator_);
      internal::kStaticFunctions[kernel](context, {arguments, count});
      if (temp_allocator_ != nullptr) {
        temp_allocator_->reset();
      }
      const Error error = context.failure_state();
      ET_CHECK_OK_OR_RETURN_ERROR(
          error,
          "operator %s failed, error 0x%" PRIx32,
          internal::kStaticKernels[kernel].name_,
          static_cast<uint32_t>(error));
      break;
    }
    case PrelinkedMethod::kMove:
      *resolve(values_, word[0]) = *resolve(values_, word[1]);
      word += 2;
      break;
    case PrelinkedMethod::kJumpFalse: {
      const Result<bool> condition = internal::is_true(*resolve(values_, word[0]));
      if (!condition.ok()) {
        return condition.error();
      }
      const uintptr_t* const destination = method.code + word[1];
      word += 2;
      if (!*condition) {
        ET_CHECK_OR_RETURN_ERROR(
            destination >= word || chains_->backward_jumps++ < kMaxBackwardJumps,
            InvalidProgram,
            "a loop of the program does not end");
        word = destination;
      }
      break;
    }
    default:
      if (internal::kHasDelegates && (head & PrelinkedMethod::kDelegate) != 0) {
        EValue** const arguments = chains_->arguments;
        const size_t count = (head & ((1u << PrelinkedMethod::kDelegateBit) - 1)) >>
            PrelinkedMethod::kDelegateCountBit;
        for (size_t i = 0; i < count; ++i) {
          arguments[i] = resolve(values_, *word++);
        }
        const size_t delegate = head >> PrelinkedMethod::kDelegateBit;
        const Error error = internal::execute_delegate(
            delegates_[delegate],
            {event_tracer_, temp_allocator_, method.name},
            temp_allocator_,
            {arguments, count});
        ET_CHECK_OK_OR_RETURN_ERROR(
            error,
            "delegate %zu of backend %s failed, error 0x%" PRIx32,
            delegate,
            method.delegates()[delegate].id,
            static_cast<uint32_t>(error));
        break;
      }
      internal::reset_data_ptr(resolve(values_, *word++)->payload.as_tensor);
  }
  step_state_.instr_idx = static_cast<size_t>(word - method.code);
  return Error::Ok;
}

Error Method::execute() {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      step_state_.instr_idx == 0,
      InvalidState,
      "the method is being executed by steps; reset it first");
  const PrelinkedMethod& method = prelinked_method(serialization_plan_);
  for (size_t i = 0; i < method.input_count; ++i) {
    ET_CHECK_OR_RETURN_ERROR(input_set_[i], InvalidState, "input %zu has not been set", i);
  }
  Error error = Error::Ok;
  while (step_state_.instr_idx < method.code_size && error == Error::Ok) {
    error = execute_instruction();
  }
  chains_->backward_jumps = 0;
  step_state_ = {};
  return error;
}

Error Method::step() {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  if (step_state_.instr_idx >= prelinked_method(serialization_plan_).code_size) {
    return Error::EndOfMethod;
  }
  const Error error = execute_instruction();
  if (error != Error::Ok) {
    step_state_ = {};
    chains_->backward_jumps = 0;
  }
  return error;
}

bool Method::in_progress() const {
  return step_state_.instr_idx != 0 &&
      step_state_.instr_idx < prelinked_method(serialization_plan_).code_size;
}

Error Method::reset_execution() {
  ET_CHECK_OR_RETURN_ERROR(
      !in_progress(), InvalidState, "the method has instructions left to step through");
  step_state_ = {};
  if (initialized()) {
    chains_->backward_jumps = 0;
  }
  return Error::Ok;
}

} // namespace runtime
} // namespace executorch
