#pragma once

#include "kernels/boxed.h"

/**
 * executorch_prim's operators on symbolic sizes, and aten::sym_size and
 * sym_numel: (operands..., result), boxed, as they write an EValue. Operands are
 * integers or bools; floating-point ones are refused (NotSupported), division
 * by zero too (InvalidArgument). Arithmetic wraps.
 */
namespace torch {
namespace executor {
namespace native {

void sym_size(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_numel(KernelRuntimeContext& ctx, Span<EValue*> stack);

void sym_add(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_sub(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_mul(KernelRuntimeContext& ctx, Span<EValue*> stack);
/// Rounded toward negative infinity, as Python's //.
void sym_floordiv(KernelRuntimeContext& ctx, Span<EValue*> stack);
/// The remainder of sym_floordiv, as Python's %.
void sym_mod(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_max(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_min(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_neg(KernelRuntimeContext& ctx, Span<EValue*> stack);

void sym_eq(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_gt(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_lt(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_ge(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_le(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_not(KernelRuntimeContext& ctx, Span<EValue*> stack);

} // namespace native
} // namespace executor
} // namespace torch
