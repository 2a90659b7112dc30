#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/util/dtypes.h"
#include "kernels/util/load.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/scalars.h"

/**
 * Elementwise operators: an operation is a struct with
 * `R operator()(T...) const`, everything else is here and shared: dtypes,
 * promotion, broadcasting, dim orders. One loop per operation, dtype and shape
 * class is compiled: equal shapes, and any stride if the program broadcasts,
 * mixes dtypes or dim orders. Tensors of mixed dtypes are converted block by
 * block, by code that all operators share.
 */
namespace torch::executor::native {

/// The rule that derives an operator's computing dtype from its inputs' common dtype.
enum class Compute : uint8_t {
  /// The common dtype.
  Common,
  /// Float where the common dtype is integral or bool.
  Floating,
  /// The common dtype, with a result that is Bool.
  Predicate,
};

/// Elements converted at a time for mixed dtypes.
constexpr size_t kBlock = 16;

// ---- inner functions: pointers and sizes only

/// Sets out[i] = op(a[i]).
template <class T, class R, class Op>
inline void map(const Op& op, const T* a, R* out, size_t count) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<R, float>) {
    for (; count >= 4; count -= 4) {
      float x0, x1, x2, x3;
      load4_inputs(a, x0, x1, x2, x3);
      store4(out, op(x0), op(x1), op(x2), op(x3));
    }
  }
  for (; count > 0; --count) {
    *out++ = op(*a++);
  }
}

/// map() of an operation without parameters, in a function of its own, as programs call one often.
template <class Operation>
__attribute__((noinline)) void map_floats(const float* in, float* out, size_t count) {
  map(Operation(), in, out, count);
}

/// The same for an operation with parameters.
template <class Operation>
__attribute__((noinline)) void
map_floats(const Operation& op, const float* in, float* out, size_t count) {
  map(op, in, out, count);
}

/// Sets out[i] = op(a[i], b[i]).
template <class A, class B, class R, class Op>
inline void map(const Op& op, const A* a, const B* b, R* out, size_t count) {
  if constexpr (std::is_same_v<A, float> && std::is_same_v<B, float> && std::is_same_v<R, float>) {
    for (; count >= 4; count -= 4) {
      float x0, x1, x2, x3, y0, y1, y2, y3;
      load4_inputs(a, x0, x1, x2, x3);
      load4_weights(b, y0, y1, y2, y3);
      store4(out, op(x0, y0), op(x1, y1), op(x2, y2), op(x3, y3));
    }
  }
  for (; count > 0; --count) {
    *out++ = op(*a++, *b++);
  }
}

/// Sets out[i] = op(a[i], b[i], c[i]).
template <class A, class B, class C, class R, class Op>
inline void map(const Op& op, const A* a, const B* b, const C* c, R* out, size_t count) {
  for (; count > 0; --count) {
    *out++ = op(*a++, *b++, *c++);
  }
}

/// A walk over an output in memory order and over two inputs, which is known when it is compiled:
/// sizes, and distances in elements, innermost dim first.
template <size_t kDims>
struct Walk {
  size_t sizes[kDims];
  int32_t strides[2][kDims];
};

/// Sets out = op(a, b) on such a walk; returns the end of the output.
template <size_t kDims, class T, class R, class Op, size_t kDim = kDims - 1>
inline R* map(const Op& op, const T* a, const T* b, R* out, const Walk<kDims>& walk) {
  for (size_t i = walk.sizes[kDim]; i > 0; --i) {
    if constexpr (kDim == 0) {
      *out++ = op(*a, *b);
    } else {
      out = map<kDims, T, R, Op, kDim - 1>(op, a, b, out, walk);
    }
    a += walk.strides[0][kDim];
    b += walk.strides[1][kDim];
  }
  return out;
}

/// Sets out[i] = a[i * stride] converted to T, for a dtype in Selection S; false if it is not in
/// it.
template <class S, class T>
bool load_elements(
    ScalarType dtype,
    const void* data,
    int32_t offset,
    int32_t stride,
    void* out,
    size_t count) {
  T* const to = static_cast<T*>(out);
  return StoredTypes::visit<S>(dtype, [&](auto tag) {
    using From = typename decltype(tag)::type;
    const From* from = static_cast<const From*>(data) + offset;
    for (size_t i = 0; i < count; ++i, from += stride) {
      to[i] = convert<T>(*from);
    }
  });
}

/// Converts `count` elements of type T to a dtype in Selection S; false if it is
/// not in it.
template <class S, class T>
bool store_elements(ScalarType dtype, void* data, size_t offset, const void* values, size_t count) {
  const T* const from = static_cast<const T*>(values);
  return StoredTypes::visit<S>(dtype, [&](auto tag) {
    using To = typename decltype(tag)::type;
    To* to = static_cast<To*>(data) + offset;
    for (size_t i = 0; i < count; ++i) {
      to[i] = convert<To>(from[i]);
    }
  });
}

// ---- outer functions

namespace internal {

/// Returns whether all inputs have the output's shape and dim order, or the image knows of no
/// others and they have as many elements.
template <class S>
bool flat(const Tensor& out, const Tensor* const* inputs, size_t count) {
  constexpr bool kHasShapes = S::has(Variant::Broadcast) || S::has(Variant::DynamicShape);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& input = *inputs[i];
    if constexpr (kHasShapes && S::has(Variant::DimOrder)) {
      if (!same_layout(input, out)) {
        return false;
      }
    } else if constexpr (kHasShapes) {
      if (!same_sizes(input.sizes(), out.sizes())) {
        return false;
      }
    } else if (
        input.numel() != out.numel() ||
        (S::has(Variant::DimOrder) && !same_dim_order(input, out))) {
      return false;
    }
  }
  return true;
}

/// An operation's loop, for code that all operators share.
struct Erased {
  /// Sets out[i] = op(in[0][i * strides[0]], in[1][i * strides[1]], ...).
  void (*loop)(
      const void* op,
      const void* const* in,
      const int32_t* strides,
      void* out,
      size_t count);
  /// The operation's types of inputs and result, and the sizes of their elements.
  ScalarType dtypes[LoopNest::kMaxInputs];
  ScalarType out_dtype;
  uint8_t sizes[LoopNest::kMaxInputs];
  uint8_t out_size;
  /// load_elements() and store_elements() of the computing dtype.
  bool (*load)(
      ScalarType dtype,
      const void* data,
      int32_t offset,
      int32_t stride,
      void* out,
      size_t count);
  bool (*store)(ScalarType dtype, void* data, size_t offset, const void* values, size_t count);
};

/**
 * Runs an operation on tensors of any dtypes, and of any shapes and dim orders;
 * the flat one on tensors of one shape and dim order.
 *
 * @param[in] common What PyTorch converts the inputs to if that is a 16-bit
 *     float, which they are then rounded to; any other dtype has no effect.
 */
using RunMixed = void(
    KernelRuntimeContext& ctx,
    const Erased& operation,
    const void* op,
    const Tensor* const* inputs,
    size_t count,
    const Tensor& out,
    ScalarType common);
RunMixed run_mixed, run_mixed_flat;

/// Sets out[i] = op(in[i * strides[0]], ...).
template <class Op, class R, class... In, size_t... kIndex>
inline void map_strided(
    const Op& op,
    std::tuple<const In*...> in,
    const int32_t* strides,
    R* out,
    size_t count,
    std::index_sequence<kIndex...>) {
  for (; count > 0; --count) {
    *out++ = op(*std::get<kIndex>(in)...);
    ((std::get<kIndex>(in) += strides[kIndex]), ...);
  }
}

template <class Op, class R, class... In, size_t... kIndex>
inline void map_erased(
    const Op& op,
    const void* const* in,
    const int32_t* strides,
    R* out,
    size_t count,
    std::index_sequence<kIndex...> indices) {
  map_strided<Op, R, In...>(
      op, {static_cast<const In*>(in[kIndex])...}, strides, out, count, indices);
}

template <class... In, class Op, class R, size_t... kIndex>
inline void map_nest(
    const Op& op,
    const LoopNest& nest,
    const Tensor* const* inputs,
    R* out,
    std::index_sequence<kIndex...> indices) {
  const int32_t strides[] = {nest.stride(kIndex)...};
  map_strided<Op, R, In...>(
      op,
      {inputs[kIndex]->template const_data_ptr<In>() + nest.offset(kIndex)...},
      strides,
      out + nest.out_offset(),
      nest.size(),
      indices);
}

template <class Op, class R, class... In>
void erased_loop(
    const void* op,
    const void* const* in,
    const int32_t* strides,
    void* out,
    size_t count) {
  map_erased<Op, R, In...>(
      *static_cast<const Op*>(op),
      in,
      strides,
      static_cast<R*>(out),
      count,
      std::index_sequence_for<In...>());
}

template <class... In, class Op, class R, size_t... kIndex>
void map_tensors(
    const Op& op,
    const Tensor* const* inputs,
    R* out,
    size_t count,
    std::index_sequence<kIndex...>) {
  map(op, inputs[kIndex]->template const_data_ptr<In>()..., out, count);
}

/// Does the same as run() where one of two inputs is a number and the other has the output's shape
/// and dim order; returns false for others.
template <class S, class A, class B, class Op, class R>
bool run_with_number(const Op& op, const Tensor* const* inputs, const Tensor& out, R* results) {
  const A* const a = inputs[0]->const_data_ptr<A>();
  const B* const b = inputs[1]->const_data_ptr<B>();
  const size_t count = static_cast<size_t>(out.numel());
  if (inputs[1]->numel() == 1 && flat<S>(out, inputs, 1)) {
    map([&op, y = *b](A x) { return op(x, y); }, a, results, count);
  } else if (inputs[0]->numel() == 1 && flat<S>(out, inputs + 1, 1)) {
    map([&op, x = *a](B y) { return op(x, y); }, b, results, count);
  } else {
    return false;
  }
  return true;
}

/// Does the same as run(), for tensors of In and R whose shapes or dim orders differ. It is not
/// inlined, because a loop nest takes much stack.
template <class... In, class Op, class R>
__attribute__((noinline)) void run_nest(
    KernelRuntimeContext& ctx,
    const Op& op,
    const Tensor* const* inputs,
    const Tensor& out,
    R* results) {
  LoopNest nest;
  if (!nest.init(ctx, out, inputs, sizeof...(In))) {
    return;
  }
  do {
    map_nest<In...>(op, nest, inputs, results, std::index_sequence_for<In...>());
  } while (nest.next());
}

/// Sets out = op(inputs...) for an operation on In..., computed in the dtype of T.
template <class S, class T, class... In, class Op>
void run(
    KernelRuntimeContext& ctx,
    const Op& op,
    const Tensor* const (&inputs)[sizeof...(In)],
    const Tensor& out,
    [[maybe_unused]] ScalarType common) {
  constexpr size_t kInputs = sizeof...(In);
  static_assert(kInputs <= LoopNest::kMaxInputs);
  using R = decltype(op(In()...));
  constexpr ScalarType kDtypes[] = {dtype_of<In>()...};
  bool is_same = out.scalar_type() == dtype_of<R>();
  for (size_t i = 0; i < kInputs; ++i) {
    is_same = is_same && inputs[i]->scalar_type() == kDtypes[i];
  }
  const bool is_flat = flat<S>(out, inputs, kInputs);
  if (is_same && is_flat) {
    map_tensors<In...>(
        op,
        inputs,
        out.mutable_data_ptr<R>(),
        static_cast<size_t>(out.numel()),
        std::index_sequence_for<In...>());
    return;
  }
  if constexpr (kInputs == 2 && S::has(Variant::Broadcast)) {
    if (is_same && run_with_number<S, In...>(op, inputs, out, out.mutable_data_ptr<R>())) {
      return;
    }
  }
  constexpr bool kHasNest = S::has(Variant::Broadcast) || S::has(Variant::DimOrder);
  if constexpr (!kHasNest) {
    KERNEL_CHECK(
        ctx,
        is_flat,
        InvalidArgument,
        ,
        "The tensors' shapes differ, and broadcasting is not linked in");
  }
  if constexpr (S::has(Variant::MixedDtypes)) {
    static constexpr Erased kOperation = {
        &erased_loop<Op, R, In...>,
        {dtype_of<In>()...},
        dtype_of<R>(),
        {sizeof(In)...},
        sizeof(R),
        &load_elements<S, T>,
        &store_elements<S, T>};
    constexpr auto kRun = kHasNest ? &run_mixed : &run_mixed_flat;
    kRun(
        ctx,
        kOperation,
        &op,
        inputs,
        kInputs,
        out,
        has_reduced<S> && std::is_same_v<T, float> ? common : ScalarType::Undefined);
    return;
  }
  KERNEL_CHECK(
      ctx,
      is_same,
      InvalidType,
      ,
      "The tensors' dtypes differ, and mixed dtypes are not linked in");
  if constexpr (kHasNest) {
    run_nest<In...>(ctx, op, inputs, out, out.mutable_data_ptr<R>());
  }
}

} // namespace internal

/**
 * The dtype an operator computes in, checked against that of `out`: Undefined
 * after failing the context (InvalidType) if the result cannot be written to
 * `out`.
 */
ScalarType
compute_dtype(KernelRuntimeContext& ctx, ScalarType common, Compute compute, ScalarType out);

/**
 * Computes out = op(self) elementwise.
 */
template <class S, class Types, Compute kCompute, class MakeOp>
Tensor& unary(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    Tensor& out,
    MakeOp&& make_op,
    std::optional<ScalarType> operand = std::nullopt) {
  if (!shape_like<S>(ctx, out, self)) {
    return out;
  }
  ScalarType dtype = self.scalar_type();
  if constexpr (S::has(Variant::MixedDtypes)) {
    if (operand.has_value()) {
      dtype = promote(dtype, false, *operand, true);
    }
    dtype = compute_dtype(ctx, dtype, kCompute, out.scalar_type());
    if (dtype == ScalarType::Undefined) {
      return out;
    }
  }
  const Tensor* const inputs[] = {&self};
  dispatch<Types, S>(ctx, computed_in<S>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T, T>(ctx, make_op(tag), inputs, out, dtype);
  });
  return out;
}

namespace internal {

/// The dtype that an operator computes in on two tensors, checked as by
/// compute_dtype().
template <class S>
ScalarType common_dtype(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    const Tensor& b,
    Compute compute,
    const Tensor& out) {
  if constexpr (S::has(Variant::MixedDtypes)) {
    return compute_dtype(
        ctx,
        promote(a.scalar_type(), a.dim() == 0, b.scalar_type(), b.dim() == 0),
        compute,
        out.scalar_type());
  } else {
    return a.scalar_type();
  }
}

} // namespace internal

/// Gives `out` the shape that tensors broadcast to; compares nothing where all
/// shapes are static.
template <class S, class... Others>
bool shape_broadcast(
    KernelRuntimeContext& ctx,
    const Tensor& out,
    const Tensor& first,
    const Others&... others) {
  if constexpr (S::has(Variant::DynamicShape)) {
    const Tensor* const inputs[] = {&first, &others...};
    if (internal::flat<S>(out, inputs, 1 + sizeof...(others))) {
      return true;
    }
    Shape shape(first.sizes());
    return (broadcast_sizes(ctx, others.sizes(), shape, shape) && ...) &&
        resize_out(ctx, out, shape);
  } else {
    return true;
  }
}

/// A Scalar as an operand of `self` in an operation on T, which is rounded to a
/// 16-bit float as that is.
template <class S, class T>
T operand_of(const Tensor& self, const Scalar& scalar) {
  const T value = scalar_to<T>(scalar);
  if constexpr (has_reduced<S> && std::is_same_v<T, float>) {
    return rounded_to(self.scalar_type(), value);
  } else {
    static_cast<void>(self);
    return value;
  }
}

/// Sets out = op(a, b) elementwise, broadcast; parameters as of unary().
template <class S, class Types, Compute kCompute, class MakeOp>
Tensor&
binary(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b, Tensor& out, MakeOp&& make_op) {
  if (!shape_broadcast<S>(ctx, out, a, b)) {
    return out;
  }
  const ScalarType dtype = internal::common_dtype<S>(ctx, a, b, kCompute, out);
  if (S::has(Variant::MixedDtypes) && dtype == ScalarType::Undefined) {
    return out;
  }
  const Tensor* const inputs[] = {&a, &b};
  dispatch<Types, S>(ctx, computed_in<S>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T, T, T>(ctx, make_op(tag), inputs, out, dtype);
  });
  return out;
}

} // namespace torch::executor::native
