#include "kernels/prim/op_sym_ops.h"

#include "kernels/math/double.h"
#include "kernels/util/checks.h"
#include "kernels/util/loop_nest.h"

namespace torch::executor::native {

namespace internal {

bool read_integers(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    size_t count,
    int64_t* values,
    bool& is_floating) {
  KERNEL_CHECK(
      ctx,
      stack.size() > count,
      InvalidProgram,
      false,
      "The call has %zu arguments, the operator takes %zu",
      stack.size(),
      count + 1);
  for (size_t i = 0; i < count; ++i) {
    const EValue& value = *stack[i];
    KERNEL_CHECK(
        ctx,
        value.tag == Tag::Int || value.tag == Tag::Bool || value.tag == Tag::Double,
        InvalidType,
        false,
        "Operand %zu is no number",
        i);
    is_floating = is_floating || value.tag == Tag::Double;
    values[i] = value.tag == Tag::Bool ? value.payload.copyable_union.as_bool
                                       : value.payload.copyable_union.as_int;
  }
  return true;
}

void read_floatings(Span<EValue*> stack, size_t count, double* values) {
  for (size_t i = 0; i < count; ++i) {
    const EValue& value = *stack[i];
    values[i] = value.tag == Tag::Bool ? (value.payload.copyable_union.as_bool ? 1.0 : 0.0)
                                       : floating(value);
  }
}

void refuse_floating(KernelRuntimeContext& ctx) {
  ET_LOG(Error, "An operand is a floating-point number, which is not linked in");
  ctx.fail(Error::NotSupported);
}

namespace {

bool check_divisor(KernelRuntimeContext& ctx, bool is_zero) {
  CHECK_ARGUMENT(ctx, !is_zero, "Division by zero");
  return true;
}

int64_t to_integer(KernelRuntimeContext& ctx, double value) {
  // NaN fails, too.
  KERNEL_CHECK(
      ctx,
      value >= -9223372036854775808.0 && value < 9223372036854775808.0,
      InvalidArgument,
      0,
      "A number is too large for an integer");
  return static_cast<int64_t>(value);
}

/// Returns the largest whole number that is not larger. From 2^52 on all numbers are whole.
double round_down(double value) {
  if (!(value > -4503599627370496.0 && value < 4503599627370496.0)) {
    return value;
  }
  const double whole = static_cast<double>(static_cast<int64_t>(value));
  return whole > value ? whole - 1 : whole;
}

/// Returns whether a remainder is not 0 and has another sign than the divisor.
bool differs_in_sign(double rest, double divisor) {
  return rest != 0 && (rest < 0) != (divisor < 0);
}

} // namespace

int64_t floor_divide(KernelRuntimeContext& ctx, int64_t a, int64_t b) {
  if (!check_divisor(ctx, b == 0)) {
    return 0;
  }
  if (b == -1) {
    // INT64_MIN / -1 would overflow.
    return SymSub()(ctx, int64_t{0}, a);
  }
  const int64_t quotient = a / b;
  const int64_t remainder = a - quotient * b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(KernelRuntimeContext& ctx, int64_t a, int64_t b) {
  return SymSub()(ctx, a, SymMul()(ctx, floor_divide(ctx, a, b), b));
}

double floor_divide(KernelRuntimeContext& ctx, double a, double b) {
  if (!check_divisor(ctx, b == 0)) {
    return 0;
  }
  // a / b may round up to the next whole number, as 1.0 / 0.1 does; this one only differs from a
  // whole number by rounding.
  const double rest = math::fmod(a, b);
  const double quotient = (a - rest) / b - (differs_in_sign(rest, b) ? 1 : 0);
  const double whole = round_down(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

double modulo(KernelRuntimeContext& ctx, double a, double b) {
  if (!check_divisor(ctx, b == 0)) {
    return 0;
  }
  const double rest = math::fmod(a, b);
  return differs_in_sign(rest, b) ? rest + b : rest;
}

} // namespace internal

namespace {

/// The tensor that is argument 0, or null after failing the context.
const Tensor* tensor_of(KernelRuntimeContext& ctx, Span<EValue*> stack, size_t count) {
  KERNEL_CHECK(
      ctx, stack.size() >= count, InvalidProgram, nullptr, "The call has too few arguments");
  KERNEL_CHECK(
      ctx, stack[0]->tag == Tag::Tensor, InvalidType, nullptr, "Argument 0 is not a tensor");
  return &stack[0]->payload.as_tensor;
}

/// The dim that is argument 1, or -1 after failing the context.
int32_t dim_of(KernelRuntimeContext& ctx, Span<EValue*> stack, const Tensor& tensor) {
  KERNEL_CHECK(ctx, stack[1]->tag == Tag::Int, InvalidType, -1, "dim is not an integer");
  KERNEL_CHECK(ctx, tensor.dim() > 0, InvalidArgument, -1, "The tensor has no dims");
  return normalize_dim(
      ctx, stack[1]->payload.copyable_union.as_int, static_cast<int32_t>(tensor.dim()));
}

/// Writes an operand rounded by `round`, or itself if it is an integer.
template <class Round>
void to_integer(KernelRuntimeContext& ctx, Span<EValue*> stack, Round&& round) {
  int64_t integer;
  bool is_floating = false;
  if (!internal::read_integers(ctx, stack, 1, &integer, is_floating)) {
    return;
  }
  if (is_floating) {
    double value;
    internal::read_floatings(stack, 1, &value);
    integer = internal::to_integer(ctx, round(value));
  }
  internal::write(ctx, *stack[1], integer);
}

} // namespace

void sym_size(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  const Tensor* const tensor = tensor_of(ctx, stack, 3);
  const int32_t dim = tensor == nullptr ? -1 : dim_of(ctx, stack, *tensor);
  if (dim >= 0) {
    *stack[2] = EValue(static_cast<int64_t>(tensor->sizes()[static_cast<size_t>(dim)]));
  }
}

void sym_stride(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  const Tensor* const tensor = tensor_of(ctx, stack, 3);
  const int32_t dim = tensor == nullptr ? -1 : dim_of(ctx, stack, *tensor);
  if (dim >= 0) {
    int32_t strides[kMaxDims];
    strides_of(*tensor, strides);
    *stack[2] = EValue(static_cast<int64_t>(strides[dim]));
  }
}

void sym_numel(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  const Tensor* const tensor = tensor_of(ctx, stack, 2);
  if (tensor != nullptr) {
    *stack[1] = EValue(static_cast<int64_t>(tensor->numel()));
  }
}

void sym_not(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t value;
  bool is_floating = false;
  if (internal::read_integers(ctx, stack, 1, &value, is_floating)) {
    *stack[1] = EValue(value == 0);
  }
}

void sym_ite(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t values[3];
  bool is_floating = false;
  if (internal::read_integers(ctx, stack, 3, values, is_floating)) {
    *stack[3] = *stack[values[0] != 0 ? 1 : 2];
  }
}

void sym_truediv(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t integers[2];
  bool is_floating = false;
  if (!internal::read_integers(ctx, stack, 2, integers, is_floating)) {
    return;
  }
  double values[2];
  internal::read_floatings(stack, 2, values);
  KERNEL_CHECK(ctx, values[1] != 0, InvalidArgument, , "Division by zero");
  *stack[2] = EValue(values[0] / values[1]);
}

void sym_float(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t integer;
  bool is_floating = false;
  if (internal::read_integers(ctx, stack, 1, &integer, is_floating)) {
    double value;
    internal::read_floatings(stack, 1, &value);
    *stack[1] = EValue(value);
  }
}

void sym_int(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  sym_trunc(ctx, stack);
}

void sym_trunc(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  to_integer(ctx, stack, [](double value) { return value; });
}

void sym_ceil(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  to_integer(ctx, stack, [](double value) { return -internal::round_down(-value); });
}

void sym_round(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  to_integer(ctx, stack, [](double value) {
    const double down = internal::round_down(value);
    const double rest = value - down;
    const bool is_odd = internal::round_down(down / 2) * 2 != down;
    return rest > 0.5 || (rest == 0.5 && is_odd) ? down + 1 : down;
  });
}

} // namespace torch::executor::native
