#pragma once

#include <cstddef>

#include "runtime/schema/program_reader.h"

namespace executorch::runtime::internal {

/**
 * Verifies every reference of a method that MethodMeta follows, and the indices of its inputs and
 * outputs.
 *
 * Method doesn't need it, because it verifies what it reads while reading.
 */
bool verify_plan(const void* data, size_t size, const executorch_flatbuffer::ExecutionPlan* plan);

} // namespace executorch::runtime::internal
