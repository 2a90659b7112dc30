#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/result.h>

namespace executorch_flatbuffer {
struct ExecutionPlan;
} // namespace executorch_flatbuffer

namespace executorch::runtime::internal {

/**
 * True if a tensor of a method is a constant or has its place in planned memory, so that nobody may
 * give it other memory.
 *
 * @param[in] plan The method.
 * @param[in] index The tensor: index of a value, as Method::get_output_index() gives it.
 */
bool has_own_memory(const executorch_flatbuffer::ExecutionPlan* plan, size_t index);

/// True if a tensor has memory, or needs none.
inline bool has_memory(const executorch::aten::Tensor& tensor) {
  return tensor.const_data_ptr() != nullptr || tensor.numel() == 0;
}

/**
 * The truth of a jump's condition: a flag, or a tensor of flags that must all be set.
 *
 * @retval Error::InvalidProgram The value is neither.
 * @retval Error::InvalidState The tensor has no data.
 */
Result<bool> is_true(const EValue& condition);

} // namespace executorch::runtime::internal
