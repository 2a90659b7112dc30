#pragma once

#include "kernels/boxed.h"

namespace torch::executor::native {

/**
 * executorch_prim::et_view: (self, size, out). Makes out a view of self's memory
 * with shape `size`, in which one -1 is inferred; copies nothing.
 */
void et_view(KernelRuntimeContext& ctx, Span<EValue*> stack);

} // namespace torch::executor::native
