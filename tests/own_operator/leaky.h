#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

namespace mine {

/// Implements mine::leak of leak.py, for float32. The header has the name of the model's own, as
/// users' do.
executorch::aten::Tensor& leak_out(
    executorch::runtime::KernelRuntimeContext& ctx,
    const executorch::aten::Tensor& x,
    double rate,
    executorch::aten::Tensor& out);

} // namespace mine
