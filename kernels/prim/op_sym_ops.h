#pragma once

#include <functional>

#include "kernels/boxed.h"
#include "kernels/selection.h"
#include "kernels/util/dtypes.h"

/**
 * executorch_prim's operators on symbols, and those of aten that make symbols of
 * tensors: (operands..., result), boxed, as they write an EValue. Operands are
 * integers, bools or, if the program has any, floating-point numbers, which are
 * refused (NotSupported) otherwise. Integers wrap; division by zero and numbers
 * that no int64 holds are refused (InvalidArgument).
 */
namespace torch::executor::native {

namespace internal {

/// Reads operands that are integers or bools; an operand that is floating-point sets
/// `is_floating`. Fails the context and returns false if there are too few values
/// for them and a result, or one is no number.
bool read_integers(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    size_t count,
    int64_t* values,
    bool& is_floating);

/// Reads operands that read_integers() has looked at.
void read_floatings(Span<EValue*> stack, size_t count, double* values);

/// Fails the context (NotSupported): floating-point symbols are not linked in.
void refuse_floating(KernelRuntimeContext& ctx);

/// Writes a result, unless computing it has failed.
template <class T>
void write(KernelRuntimeContext& ctx, EValue& result, T value) {
  if (ctx.failure_state() == Error::Ok) {
    result = EValue(value);
  }
}

/// Writes Operation()(ctx, operands...), of integers or of floating-point numbers.
template <class S, class Operation>
void sym_binary(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t integers[2];
  bool is_floating = false;
  if (!read_integers(ctx, stack, 2, integers, is_floating)) {
    return;
  }
  if (!is_floating) {
    write(ctx, *stack[2], Operation()(ctx, integers[0], integers[1]));
  } else if constexpr (S::has(Variant::FloatingSymbols)) {
    double floatings[2];
    read_floatings(stack, 2, floatings);
    write(ctx, *stack[2], Operation()(ctx, floatings[0], floatings[1]));
  } else {
    refuse_floating(ctx);
  }
}

/// Python's a // b and a % b; 0 after failing the context (InvalidArgument) if b is 0.
int64_t floor_divide(KernelRuntimeContext& ctx, int64_t a, int64_t b);
double floor_divide(KernelRuntimeContext& ctx, double a, double b);
int64_t modulo(KernelRuntimeContext& ctx, int64_t a, int64_t b);
double modulo(KernelRuntimeContext& ctx, double a, double b);

struct SymAdd {
  int64_t operator()(KernelRuntimeContext&, int64_t a, int64_t b) const {
    return wrapping_sum(a, b);
  }
  double operator()(KernelRuntimeContext&, double a, double b) const {
    return a + b;
  }
};

struct SymSub {
  int64_t operator()(KernelRuntimeContext&, int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
  double operator()(KernelRuntimeContext&, double a, double b) const {
    return a - b;
  }
};

struct SymMul {
  int64_t operator()(KernelRuntimeContext&, int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  double operator()(KernelRuntimeContext&, double a, double b) const {
    return a * b;
  }
};

struct SymFloordiv {
  template <class T>
  T operator()(KernelRuntimeContext& ctx, T a, T b) const {
    return floor_divide(ctx, a, b);
  }
};

struct SymMod {
  template <class T>
  T operator()(KernelRuntimeContext& ctx, T a, T b) const {
    return modulo(ctx, a, b);
  }
};

/// One of the standard library's comparisons.
template <class Comparison>
struct Compared {
  template <class T>
  bool operator()(KernelRuntimeContext&, T a, T b) const {
    return Comparison()(a, b);
  }
};
using SymGe = Compared<std::greater_equal<>>;
using SymLe = Compared<std::less_equal<>>;

/// Writes the first operand if it is the larger, or smaller, and the second otherwise.
template <class S, class Comparison>
void sym_extreme(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t integers[2];
  bool is_floating = false;
  if (!read_integers(ctx, stack, 2, integers, is_floating)) {
    return;
  }
  if (!is_floating) {
    *stack[2] = *stack[Comparison()(ctx, integers[0], integers[1]) ? 0 : 1];
  } else if constexpr (S::has(Variant::FloatingSymbols)) {
    double floatings[2];
    read_floatings(stack, 2, floatings);
    *stack[2] = *stack[Comparison()(ctx, floatings[0], floatings[1]) ? 0 : 1];
  } else {
    refuse_floating(ctx);
  }
}

} // namespace internal

/// aten::sym_size.int, sym_stride.int and sym_numel.
void sym_size(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_stride(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_numel(KernelRuntimeContext& ctx, Span<EValue*> stack);

template <class S>
constexpr auto& sym_add = internal::sym_binary<S, internal::SymAdd>;

template <class S>
constexpr auto& sym_sub = internal::sym_binary<S, internal::SymSub>;

template <class S>
constexpr auto& sym_mul = internal::sym_binary<S, internal::SymMul>;

/// Rounded toward negative infinity, as Python's //.
template <class S>
constexpr auto& sym_floordiv = internal::sym_binary<S, internal::SymFloordiv>;

/// The remainder of sym_floordiv, as Python's %.
template <class S>
constexpr auto& sym_mod = internal::sym_binary<S, internal::SymMod>;

template <class S>
constexpr auto& sym_max = internal::sym_extreme<S, internal::SymGe>;

template <class S>
constexpr auto& sym_min = internal::sym_extreme<S, internal::SymLe>;

template <class S>
constexpr auto& sym_eq = internal::sym_binary<S, internal::Compared<std::equal_to<>>>;

template <class S>
constexpr auto& sym_gt = internal::sym_binary<S, internal::Compared<std::greater<>>>;

template <class S>
constexpr auto& sym_lt = internal::sym_binary<S, internal::Compared<std::less<>>>;

template <class S>
constexpr auto& sym_ge = internal::sym_binary<S, internal::SymGe>;

template <class S>
constexpr auto& sym_le = internal::sym_binary<S, internal::SymLe>;

template <class S>
void sym_neg(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  int64_t integer;
  bool is_floating = false;
  if (!internal::read_integers(ctx, stack, 1, &integer, is_floating)) {
    return;
  }
  if (!is_floating) {
    *stack[1] = EValue(internal::SymSub()(ctx, int64_t{0}, integer));
  } else if constexpr (S::has(Variant::FloatingSymbols)) {
    double floating;
    internal::read_floatings(stack, 1, &floating);
    *stack[1] = EValue(-floating);
  } else {
    internal::refuse_floating(ctx);
  }
}

void sym_not(KernelRuntimeContext& ctx, Span<EValue*> stack);

/// Writes the second operand if the first, a condition, holds, and the third otherwise.
void sym_ite(KernelRuntimeContext& ctx, Span<EValue*> stack);

/// A floating-point number, whatever the operands are.
void sym_truediv(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_float(KernelRuntimeContext& ctx, Span<EValue*> stack);

/// Integers: rounded toward zero, up, and to the nearest, of two the even one.
void sym_int(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_trunc(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_ceil(KernelRuntimeContext& ctx, Span<EValue*> stack);
void sym_round(KernelRuntimeContext& ctx, Span<EValue*> stack);

/// aten::_local_scalar_dense: the element of a tensor that has one.
template <class S>
void local_scalar_dense(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  KERNEL_CHECK(ctx, stack.size() >= 2, InvalidProgram, , "The call has too few arguments");
  static constexpr internal::TagSet kTags[] = {
      internal::tags(Tag::Tensor), static_cast<internal::TagSet>(internal::kScalarTags)};
  if (!internal::check_arguments(ctx, stack, kTags, 2)) {
    return;
  }
  const Tensor& tensor = stack[0]->payload.as_tensor;
  KERNEL_CHECK(
      ctx,
      tensor.numel() == 1,
      InvalidArgument,
      ,
      "self has %d elements, not one",
      static_cast<int>(tensor.numel()));
  dispatch<StoredTypes, S>(ctx, tensor.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = *tensor.const_data_ptr<T>();
    if constexpr (std::is_same_v<T, bool>) {
      *stack[1] = EValue(element);
    } else if constexpr (std::is_integral_v<T>) {
      *stack[1] = EValue(static_cast<int64_t>(element));
    } else {
      *stack[1] = EValue(convert<double>(element));
    }
  });
}

} // namespace torch::executor::native
