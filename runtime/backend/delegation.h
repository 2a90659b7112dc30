#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/span.h>

#include "runtime/backend/delegate.h"
#include "runtime/backend/has_delegates.h"
#include "runtime/flatbuffer/flatbuffer.h"

namespace executorch_flatbuffer {
struct ExecutionPlan;
} // namespace executorch_flatbuffer

namespace executorch::runtime::internal {

/**
 * Lets the backends make the delegates of a method.
 *
 * @param[in] program The program, and what it is loaded from.
 * @param[in] plan The method, whose delegates' vector has been verified.
 * @param[in] context What each backend gets; the delegates are allocated there, too.
 * @param[out] delegates Receives them.
 * @param[out] count Receives the number of those to destroy, in case of an error, too.
 */
Error init_delegates(
    const Program& program,
    const FreeableBuffer& program_data,
    const executorch_flatbuffer::ExecutionPlan* plan,
    BackendInitContext&& context,
    BackendDelegate** delegates,
    size_t* count);

/// Executes one, and resets the temporary allocator, which may be nullptr.
Error execute_delegate(
    const BackendDelegate& delegate,
    BackendExecutionContext&& context,
    MemoryAllocator* temp_allocator,
    Span<EValue*> arguments);

/**
 * Verifies a call of a delegate in a .pte file.
 *
 * @param[in] content The DelegateCall.
 * @param[in] count Number of the method's delegates.
 * @param[out] highest_value Receives the highest index of a value among its arguments.
 * @param[in,out] argument_count Raised to the number of its arguments.
 */
Error check_delegate_call(
    flatbuffers::Verifier& verifier,
    const flatbuffers::View& content,
    uint32_t count,
    uint32_t* highest_value,
    uint32_t* argument_count);

} // namespace executorch::runtime::internal
