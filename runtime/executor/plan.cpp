#include "runtime/executor/plan.h"

namespace executorch {
namespace runtime {
namespace internal {

namespace {

using executorch_flatbuffer::EValue;
using executorch_flatbuffer::ExecutionPlan;
using executorch_flatbuffer::Instruction;
using executorch_flatbuffer::InstructionArguments;
using executorch_flatbuffer::KernelTypes;
using flatbuffers::Verifier;

void verify_tensor(Verifier& verifier, const executorch_flatbuffer::Tensor* tensor) {
  using executorch_flatbuffer::ExtraTensorInfo;
  using executorch_flatbuffer::Tensor;
  verifier.vector(tensor, Tensor::VT_SIZES, sizeof(int32_t), alignof(int32_t));
  verifier.vector(tensor, Tensor::VT_DIM_ORDER, sizeof(uint8_t));
  verifier.table(tensor, Tensor::VT_ALLOCATION_INFO);
  if (verifier.table(tensor, Tensor::VT_EXTRA_TENSOR_INFO)) {
    verifier.string(tensor->extra_tensor_info(), ExtraTensorInfo::VT_FULLY_QUALIFIED_NAME);
  }
}

void verify_value(Verifier& verifier, const EValue* value) {
  // All lists, and a string, are the only field of their table.
  constexpr uint32_t kItems = executorch_flatbuffer::IntList::VT_ITEMS;
  static_assert(
      executorch_flatbuffer::String::VT_STRING_VAL == kItems && executorch_flatbuffer::BoolList::VT_ITEMS == kItems &&
      executorch_flatbuffer::DoubleList::VT_ITEMS == kItems && executorch_flatbuffer::TensorList::VT_ITEMS == kItems &&
      executorch_flatbuffer::OptionalTensorList::VT_ITEMS == kItems);
  const KernelTypes type = value->val_type();
  if (type == KernelTypes::Null) {
    return;
  }
  if (!verifier.table(value, EValue::VT_VAL)) {
    verifier.fail();
    return;
  }
  const flatbuffers::Table* content = value->val();
  switch (type) {
    case KernelTypes::Int:
    case KernelTypes::Bool:
    case KernelTypes::Double:
      break;
    case KernelTypes::Tensor:
      verify_tensor(verifier, static_cast<const executorch_flatbuffer::Tensor*>(content));
      break;
    case KernelTypes::String:
      verifier.string(content, kItems);
      break;
    case KernelTypes::IntList:
      verifier.vector(content, kItems, sizeof(int64_t));
      break;
    case KernelTypes::DoubleList:
      verifier.vector(content, kItems, sizeof(double), alignof(double));
      break;
    case KernelTypes::BoolList:
      verifier.vector(content, kItems, sizeof(bool));
      break;
    case KernelTypes::TensorList:
    case KernelTypes::OptionalTensorList:
      verifier.vector(content, kItems, sizeof(int32_t));
      break;
    default:
      verifier.fail();
  }
}

void verify_instruction(Verifier& verifier, const Instruction* instruction) {
  using executorch_flatbuffer::DelegateCall;
  using executorch_flatbuffer::KernelCall;
  static_assert(KernelCall::VT_ARGS == DelegateCall::VT_ARGS);
  if (!verifier.table(instruction, Instruction::VT_INSTR_ARGS)) {
    verifier.fail();
    return;
  }
  const InstructionArguments type = instruction->instr_args_type();
  if (type == InstructionArguments::KernelCall || type == InstructionArguments::DelegateCall) {
    verifier.vector(instruction->instr_args(), KernelCall::VT_ARGS, sizeof(int32_t));
  }
}

// Verifies a vector of indices into the values.
void verify_indices(Verifier& verifier, const ExecutionPlan* plan, uint32_t place) {
  if (verifier.vector(plan, place, sizeof(int32_t))) {
    const auto& indices = place == ExecutionPlan::VT_INPUTS ? *plan->inputs() : *plan->outputs();
    for (uint32_t i = 0; i < indices.size(); ++i) {
      if (static_cast<uint32_t>(indices[i]) >= plan->values()->size()) {
        verifier.fail();
      }
    }
  }
}

} // namespace

bool verify_plan(const void* data, size_t size, const ExecutionPlan* plan) {
  using executorch_flatbuffer::BackendDelegate;
  using executorch_flatbuffer::Chain;
  using executorch_flatbuffer::Operator;
  Verifier verifier(data, size);
  if (!verifier.tables(plan, ExecutionPlan::VT_VALUES)) {
    return false;
  }
  const auto& values = *plan->values();
  for (uint32_t i = 0; i < values.size(); ++i) {
    verify_value(verifier, values[i]);
  }
  verify_indices(verifier, plan, ExecutionPlan::VT_INPUTS);
  verify_indices(verifier, plan, ExecutionPlan::VT_OUTPUTS);
  if (!verifier.tables(plan, ExecutionPlan::VT_CHAINS)) {
    return false;
  }
  const auto& chains = *plan->chains();
  for (uint32_t i = 0; i < chains.size(); ++i) {
    if (verifier.tables(chains[i], Chain::VT_INSTRUCTIONS)) {
      const auto& instructions = *chains[i]->instructions();
      for (uint32_t j = 0; j < instructions.size(); ++j) {
        verify_instruction(verifier, instructions[j]);
      }
    }
  }
  if (verifier.tables(plan, ExecutionPlan::VT_OPERATORS)) {
    const auto& operators = *plan->operators();
    for (uint32_t i = 0; i < operators.size(); ++i) {
      if (!verifier.string(operators[i], Operator::VT_NAME)) {
        return false;
      }
      verifier.string(operators[i], Operator::VT_OVERLOAD);
    }
  }
  if (verifier.tables(plan, ExecutionPlan::VT_DELEGATES)) {
    const auto& delegates = *plan->delegates();
    for (uint32_t i = 0; i < delegates.size(); ++i) {
      if (!verifier.string(delegates[i], BackendDelegate::VT_ID)) {
        return false;
      }
    }
  }
  verifier.vector(plan, ExecutionPlan::VT_NON_CONST_BUFFER_SIZES, sizeof(int64_t));
  verifier.tables(plan, ExecutionPlan::VT_NON_CONST_BUFFER_DEVICE);
  return verifier.ok();
}

} // namespace internal
} // namespace runtime
} // namespace executorch
