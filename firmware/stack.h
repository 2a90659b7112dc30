#pragma once

#include <stddef.h>

/// Measures the stack: the start-up code fills it with a pattern.

#ifdef __cplusplus
extern "C" {
#endif

/// Bytes of stack used at the deepest point so far.
size_t stack_used(void);

/// Bytes of stack there are; 0 where it cannot be measured.
size_t stack_size(void);

#ifdef __cplusplus
}
#endif
