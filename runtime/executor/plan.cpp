#include "runtime/executor/plan.h"

namespace executorch::runtime::internal {

namespace {

using executorch_flatbuffer::ExecutionPlan;
using flatbuffers::length;
using flatbuffers::Offset;
using flatbuffers::Vector;
using flatbuffers::Verifier;
using flatbuffers::View;

void verify_values(
    Verifier& verifier,
    const Vector<Offset<executorch_flatbuffer::EValue>>& values) {
  using namespace executorch_flatbuffer;
  for (uint32_t i = 0; i < values.size(); ++i) {
    View value;
    View tensor;
    if (verifier.open(values, i, value) &&
        value.scalar<KernelTypes>(EValue::VT_VAL_TYPE) == KernelTypes::Tensor) {
      if (!verifier.open(value, EValue::VT_VAL, tensor)) {
        verifier.fail();
        return;
      }
      verifier.aligned_vector<int32_t>(tensor, Tensor::VT_SIZES);
      verifier.vector<uint8_t>(tensor, Tensor::VT_DIM_ORDER);
      View table;
      verifier.open(tensor, Tensor::VT_ALLOCATION_INFO, table);
      if (verifier.open(tensor, Tensor::VT_EXTRA_TENSOR_INFO, table)) {
        verifier.string(table, ExtraTensorInfo::VT_FULLY_QUALIFIED_NAME);
      }
    }
  }
}

void verify_indices(Verifier& verifier, const View& plan, uint32_t place, uint32_t value_count) {
  const auto* indices = verifier.vector<int32_t>(plan, place);
  for (uint32_t i = 0; i < length(indices); ++i) {
    if (static_cast<uint32_t>((*indices)[i]) >= value_count) {
      verifier.fail();
    }
  }
}

} // namespace

bool verify_plan(const void* data, size_t size, const ExecutionPlan* plan_table) {
  using namespace executorch_flatbuffer;
  Verifier verifier(data, size);
  const View plan(plan_table);
  const auto* values = verifier.vector<Offset<EValue>>(plan, ExecutionPlan::VT_VALUES);
  if (values != nullptr) {
    verify_values(verifier, *values);
  }
  verify_indices(verifier, plan, ExecutionPlan::VT_INPUTS, length(values));
  verify_indices(verifier, plan, ExecutionPlan::VT_OUTPUTS, length(values));
  View table;
  const auto* chains = verifier.vector<Offset<Chain>>(plan, ExecutionPlan::VT_CHAINS);
  for (uint32_t i = 0; i < length(chains); ++i) {
    if (verifier.open(*chains, i, table)) {
      verifier.vector<Offset<Instruction>>(table, Chain::VT_INSTRUCTIONS);
    }
  }
  const auto* delegates =
      verifier.vector<Offset<BackendDelegate>>(plan, ExecutionPlan::VT_DELEGATES);
  for (uint32_t i = 0; i < length(delegates); ++i) {
    if (!verifier.open(*delegates, i, table) ||
        verifier.string(table, BackendDelegate::VT_ID) == nullptr) {
      return false;
    }
  }
  verifier.vector<int64_t>(plan, ExecutionPlan::VT_NON_CONST_BUFFER_SIZES);
  const auto* devices = verifier.vector<Offset<NonConstBufferDevice>>(
      plan, ExecutionPlan::VT_NON_CONST_BUFFER_DEVICE);
  for (uint32_t i = 0; i < length(devices); ++i) {
    verifier.open(*devices, i, table);
  }
  return verifier.ok();
}

} // namespace executorch::runtime::internal
