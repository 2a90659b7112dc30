#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Fills the unused part of the stack with a pattern.
void cortex_m_paint_stack(void);

/// Bytes of stack used at the deepest point since cortex_m_paint_stack().
size_t cortex_m_stack_used(void);

/// Bytes of stack there are.
size_t cortex_m_stack_size(void);

#ifdef __cplusplus
}
#endif
