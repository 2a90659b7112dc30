#include "kernels/prim/sym_ops.h"

#include "kernels/util/checks.h"

namespace torch {
namespace executor {
namespace native {

namespace {

/// The integer or bool of an operand; fails the context for anything else.
int64_t operand(KernelRuntimeContext& ctx, Span<EValue*> stack, size_t index, size_t count) {
  KERNEL_CHECK(
      ctx,
      stack.size() >= count,
      InvalidProgram,
      0,
      "The call has %zu arguments, the operator takes %zu",
      stack.size(),
      count);
  const EValue& value = *stack[index];
  if (value.tag == Tag::Bool) {
    return value.payload.copyable_union.as_bool ? 1 : 0;
  }
  KERNEL_CHECK(
      ctx,
      value.tag == Tag::Int,
      NotSupported,
      0,
      "Operand %zu is neither an integer nor a bool",
      index);
  return value.payload.copyable_union.as_int;
}

template <class Operation>
void unary(KernelRuntimeContext& ctx, Span<EValue*> stack, Operation&& operation) {
  const int64_t a = operand(ctx, stack, 0, 2);
  if (ctx.failure_state() == Error::Ok) {
    *stack[1] = EValue(operation(a));
  }
}

template <class Operation>
void binary(KernelRuntimeContext& ctx, Span<EValue*> stack, Operation&& operation) {
  const int64_t a = operand(ctx, stack, 0, 3);
  if (ctx.failure_state() != Error::Ok) {
    return;
  }
  const int64_t b = operand(ctx, stack, 1, 3);
  if (ctx.failure_state() == Error::Ok) {
    *stack[2] = EValue(operation(a, b));
  }
}

int64_t wrap(uint64_t value) {
  return static_cast<int64_t>(value);
}

/// Quotient and remainder as Python's divmod.
void divide(KernelRuntimeContext& ctx, Span<EValue*> stack, bool want_remainder) {
  binary(ctx, stack, [&](int64_t a, int64_t b) -> int64_t {
    KERNEL_CHECK(ctx, b != 0, InvalidArgument, 0, "Division by zero");
    if (b == -1) {
      // INT64_MIN / -1 would overflow.
      return want_remainder ? 0 : wrap(0 - static_cast<uint64_t>(a));
    }
    const int64_t quotient = a / b;
    const int64_t remainder = a - quotient * b;
    const bool is_floored = remainder == 0 || (remainder < 0) == (b < 0);
    return want_remainder ? (is_floored ? remainder : remainder + b)
                          : (is_floored ? quotient : quotient - 1);
  });
}

/// The tensor that is argument 0, or null after failing the context.
const Tensor* tensor_of(KernelRuntimeContext& ctx, Span<EValue*> stack, size_t count) {
  KERNEL_CHECK(
      ctx, stack.size() >= count, InvalidProgram, nullptr, "The call has too few arguments");
  KERNEL_CHECK(
      ctx, stack[0]->tag == Tag::Tensor, InvalidType, nullptr, "Argument 0 is not a tensor");
  return &stack[0]->payload.as_tensor;
}

} // namespace

void sym_size(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  const Tensor* const tensor = tensor_of(ctx, stack, 3);
  if (tensor == nullptr) {
    return;
  }
  const int64_t dim = operand(ctx, stack, 1, 3);
  if (ctx.failure_state() != Error::Ok) {
    return;
  }
  KERNEL_CHECK(
      ctx, dim >= -tensor->dim() && dim < tensor->dim(), InvalidArgument, , "dim is out of range");
  const auto index = static_cast<size_t>(dim < 0 ? dim + tensor->dim() : dim);
  *stack[2] = EValue(static_cast<int64_t>(tensor->sizes()[index]));
}

void sym_numel(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  const Tensor* const tensor = tensor_of(ctx, stack, 2);
  if (tensor != nullptr) {
    *stack[1] = EValue(static_cast<int64_t>(tensor->numel()));
  }
}

void sym_add(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) {
    return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  });
}

void sym_sub(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) {
    return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  });
}

void sym_mul(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) {
    return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  });
}

void sym_floordiv(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  divide(ctx, stack, false);
}

void sym_mod(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  divide(ctx, stack, true);
}

void sym_max(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a > b ? a : b; });
}

void sym_min(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a < b ? a : b; });
}

void sym_neg(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  unary(ctx, stack, [](int64_t a) { return wrap(0 - static_cast<uint64_t>(a)); });
}

void sym_eq(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a == b; });
}

void sym_gt(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a > b; });
}

void sym_lt(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a < b; });
}

void sym_ge(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a >= b; });
}

void sym_le(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  binary(ctx, stack, [](int64_t a, int64_t b) { return a <= b; });
}

void sym_not(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  unary(ctx, stack, [](int64_t a) { return a == 0; });
}

} // namespace native
} // namespace executor
} // namespace torch
