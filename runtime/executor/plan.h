#pragma once

#include <cstddef>

#include "runtime/schema/program_reader.h"

namespace executorch {
namespace runtime {
namespace internal {

/**
 * Verifies every reference of a method that MethodMeta and Method follow, and the indices of its inputs and outputs.
 *
 * Other indices, sizes and offsets are checked by Method where it uses them.
 *
 * @param[in] data The flatbuffer that holds the plan.
 * @param[in] size Its size in bytes.
 * @param[in] plan The method, a table whose header has been verified.
 */
bool verify_plan(const void* data, size_t size, const executorch_flatbuffer::ExecutionPlan* plan);

} // namespace internal
} // namespace runtime
} // namespace executorch
