#pragma once

#include <executorch/runtime/kernel/operator_registry.h>

#include "kernels/boxed.h"

namespace torch_fusion::testing {

/// out: self + 1, for floats.
executorch::aten::Tensor& increment(
    executorch::runtime::KernelRuntimeContext& ctx,
    const executorch::aten::Tensor& self,
    executorch::aten::Tensor& out);

/// out: whether the first element is 3 or more.
executorch::aten::Tensor& at_least(
    executorch::runtime::KernelRuntimeContext& ctx,
    const executorch::aten::Tensor& self,
    executorch::aten::Tensor& out);

/// out: a + b, for floats of as many elements.
executorch::aten::Tensor& sum(
    executorch::runtime::KernelRuntimeContext& ctx,
    const executorch::aten::Tensor& a,
    const executorch::aten::Tensor& b,
    executorch::aten::Tensor& out);

/// out[0]: 1 if all arguments are those of program `lists`; out[1]: elements of all lists. It takes
/// boxed values, because no operator of a model has all kinds.
void inspect(
    executorch::runtime::KernelRuntimeContext& ctx,
    executorch::runtime::Span<executorch::runtime::EValue*> arguments);

/// The operators that only make_programs.py's programs have.
inline constexpr executorch::runtime::Kernel kTestOperators[] = {
    executorch::runtime::Kernel("test::increment.out", torch::executor::native::boxed<&increment>),
    executorch::runtime::Kernel("test::at_least.out", torch::executor::native::boxed<&at_least>),
    executorch::runtime::Kernel("test::inspect", &inspect),
    executorch::runtime::Kernel("test::sum.out", torch::executor::native::boxed<&sum>),
};

} // namespace torch_fusion::testing
