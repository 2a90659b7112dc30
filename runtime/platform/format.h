#pragma once

#include <cstdarg>
#include <cstddef>

#include <executorch/runtime/platform/compiler.h>

namespace executorch::runtime::internal {

/**
 * Formats a message without the C library's stdio, which would cost more flash than the runtime.
 *
 * Understands %d %i %u %x %X %p %c %s %% with the flags '-' and '0', a width, a precision of %s
 * (".4" or ".*"), and the length modifiers hh h l ll z t j. Any other conversion, floating point
 * among them, is copied as it stands, and its argument is skipped.
 *
 * @param[out] buffer Receives the message, truncated to fit and ended by a NUL.
 * @param[in] size Size of the buffer in bytes, at least 1.
 * @returns The number of characters written, without the NUL.
 */
ET_PRINTFLIKE(3, 0)
size_t vformat(char* buffer, size_t size, const char* format, va_list arguments);

/// Does the same as vformat().
ET_PRINTFLIKE(3, 4)
size_t format(char* buffer, size_t size, const char* format, ...);

} // namespace executorch::runtime::internal
