#pragma once

#include "kernels/boxed.h"

namespace torch::executor::native {

/**
 * executorch_prim::et_copy_index.tensor: (copy_to, copy_from, index). Writes
 * copy_from to copy_to[index]; a program that maps a function over a tensor
 * collects its results so. Where copy_to's shape is dynamic it gets index + 1
 * parts, of those that memory is planned for.
 */
void et_copy_index(KernelRuntimeContext& ctx, Span<EValue*> stack);

} // namespace torch::executor::native
