#pragma once

#include "runtime/prelinked/prelinked.h"

namespace executorch_flatbuffer {
struct ExecutionPlan;
} // namespace executorch_flatbuffer

namespace executorch {
namespace runtime {
namespace internal {

// ExecuTorch's classes hold a method as a pointer to a table of a .pte, whose type they only
// declare.

inline executorch_flatbuffer::ExecutionPlan* as_plan(const PrelinkedMethod* method) {
  return reinterpret_cast<executorch_flatbuffer::ExecutionPlan*>(
      const_cast<PrelinkedMethod*>(method));
}

inline const PrelinkedMethod& prelinked_method(const executorch_flatbuffer::ExecutionPlan* plan) {
  return *reinterpret_cast<const PrelinkedMethod*>(plan);
}

} // namespace internal
} // namespace runtime
} // namespace executorch
