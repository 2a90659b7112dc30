#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

namespace mine {

/// mine::smooth of smooth.py, for float32.
executorch::aten::Tensor& smooth_out(
    executorch::runtime::KernelRuntimeContext& ctx,
    const executorch::aten::Tensor& x,
    double alpha,
    executorch::aten::Tensor& out);

} // namespace mine
