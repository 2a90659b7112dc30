#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/boxed.h"
#include "runtime/compiled/tensor_data.h"

/**
 * Calls of kernels by the sources that tools/pipeline/compile generates: a kernel by its name, with
 * constants as literals, tensors as TensorData and, of programs that compute numbers, values as
 * EValue. What an argument is converted to follows from the kernel's signature when it is compiled.
 */
namespace torch::executor::native {

using executorch::runtime::internal::TensorData;

/// A None of a program.
struct None {};

/// A list of elements of the call itself.
template <class T, size_t kSize>
struct List {
  T items[kSize];
};

namespace internal {

/// Converts an argument of type T from the form that generated sources pass.
template <class T>
struct Argument {
  T value;

  Argument(KernelRuntimeContext&, T given) : value(given) {}
  Argument(KernelRuntimeContext& ctx, EValue& given) : value(read(ctx, given)) {}

 private:
  static T read(KernelRuntimeContext& ctx, EValue& given) {
    if (((Unbox<T>::kTags >> static_cast<uint32_t>(given.tag)) & 1u) == 0) {
      ctx.fail(Error::InvalidType);
      return T();
    }
    return Unbox<T>::get(ctx, given);
  }
};

template <>
struct Argument<Tensor> {
  Tensor value;

  Argument(KernelRuntimeContext&, const TensorData& given) : value(given.tensor()) {}
  Argument(KernelRuntimeContext& ctx, TensorData& given) : value(given.tensor()) {
    // The memory of such a tensor changes while the program runs.
    if (given.data == nullptr && given.numel != 0) {
      ctx.fail(Error::InvalidState);
    }
  }
  Argument(KernelRuntimeContext&, EValue& given) : value(given.payload.as_tensor) {}
};

/// A float of a schema, which a program may write as an integer.
template <>
struct Argument<double> {
  double value;

  Argument(KernelRuntimeContext&, double given) : value(given) {}
  Argument(KernelRuntimeContext&, int64_t given) : value(static_cast<double>(given)) {}
  Argument(KernelRuntimeContext&, EValue& given) : value(floating(given)) {}
};

template <>
struct Argument<Scalar> {
  Scalar value;

  Argument(KernelRuntimeContext&, double given) : value(given) {}
  Argument(KernelRuntimeContext&, int64_t given) : value(given) {}
  Argument(KernelRuntimeContext&, bool given) : value(given) {}
  Argument(KernelRuntimeContext&, EValue& given) : value(scalar(given)) {}
};

/// Dtypes and memory formats are integers in a program.
template <class T>
struct EnumArgument {
  T value;

  EnumArgument(KernelRuntimeContext&, int64_t given) : value(static_cast<T>(given)) {}
};
template <>
struct Argument<ScalarType> : EnumArgument<ScalarType> {
  using EnumArgument::EnumArgument;
};
template <>
struct Argument<executorch::aten::MemoryFormat> : EnumArgument<executorch::aten::MemoryFormat> {
  using EnumArgument::EnumArgument;
};

template <class T>
struct Argument<ArrayRef<T>> {
  ArrayRef<T> value;

  Argument(KernelRuntimeContext&, ArrayRef<T> given) : value(given) {}
  template <size_t kSize>
  Argument(KernelRuntimeContext&, const List<T, kSize>& given) : value(given.items, kSize) {}
};

template <>
struct Argument<Span<Tensor>> {
  Span<Tensor> value;

  template <size_t kSize>
  Argument(KernelRuntimeContext&, const List<Tensor, kSize>& given)
      : value(const_cast<Tensor*>(given.items), kSize) {}
};

template <class T>
struct Argument<std::optional<T>> {
  std::optional<T> value;

  Argument(KernelRuntimeContext&, None) {}
  template <class Given, class = std::enable_if_t<!std::is_same_v<std::decay_t<Given>, None>>>
  Argument(KernelRuntimeContext& ctx, Given&& given)
      : value(Argument<T>(ctx, static_cast<Given&&>(given)).value) {}
};

template <class T>
T& lasting(T&& temporary) {
  // Since C++23 the name alone is an rvalue here.
  return static_cast<T&>(temporary);
}

template <class Signature>
struct Caller;

template <class Return, class... Args>
struct Caller<Return (*)(KernelRuntimeContext&, Args...)> {
  /// `given` may have more arguments than the kernel: programs repeat those that are written in
  /// place.
  template <class Kernel, class... Given>
  static bool call(Kernel kernel, KernelRuntimeContext& ctx, Given&&... given) {
    static_assert(sizeof...(Given) >= sizeof...(Args), "The kernel takes more arguments");
    return select(
        kernel,
        ctx,
        std::forward_as_tuple(static_cast<Given&&>(given)...),
        std::index_sequence_for<Args...>());
  }

 private:
  template <class Kernel, class... Given, size_t... kIndex>
  static bool select(
      Kernel kernel,
      KernelRuntimeContext& ctx,
      std::tuple<Given...>&& given,
      std::index_sequence<kIndex...>) {
    return invoke(
        kernel, ctx, lasting(Argument<Bare<Args>>(ctx, std::get<kIndex>(std::move(given))))...);
  }

  template <class Kernel, class... Arguments>
  static bool invoke(Kernel kernel, KernelRuntimeContext& ctx, Arguments&... arguments) {
    if (ctx.failure_state() == Error::Ok) {
      kernel(ctx, arguments.value...);
    }
    return ctx.failure_state() == Error::Ok;
  }
};

/// Elements of a List: tensors, optional tensors or integers.
inline Tensor element(const TensorData& given) {
  return given.tensor();
}
inline Tensor element(EValue& given) {
  return given.payload.as_tensor;
}
inline std::nullopt_t element(None) {
  return std::nullopt;
}

/// An argument of a kernel that takes boxed ones.
struct Box {
  ReadyIntList ints = {};
  EValue own;
  EValue* value;

  Box(EValue& given) : value(&given) {}
  Box(const TensorData& given) : own(given.tensor()), value(&own) {}
  Box(int64_t given) : own(given), value(&own) {}
  Box(double given) : own(given), value(&own) {}
  Box(bool given) : own(given), value(&own) {}
  Box(None) : value(&own) {}
  Box(ArrayRef<int64_t> given) : ints{nullptr, given.size(), given.data()}, value(&own) {
    point();
  }
  template <size_t kSize>
  Box(const List<int64_t, kSize>& given) : ints{nullptr, kSize, given.items}, value(&own) {
    point();
  }
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

 private:
  void point() {
    own.tag = Tag::ListInt;
    own.payload.copyable_union.as_int_list_ptr =
        reinterpret_cast<executorch::runtime::BoxedEvalueList<int64_t>*>(&ints);
  }
};

template <class... Boxes>
bool invoke_boxed(
    void (*kernel)(KernelRuntimeContext&, Span<EValue*>),
    KernelRuntimeContext& ctx,
    Boxes&&... boxes) {
  EValue* stack[] = {boxes.value...};
  kernel(ctx, {stack, sizeof...(boxes)});
  return ctx.failure_state() == Error::Ok;
}

} // namespace internal

/**
 * Calls a kernel.
 */
template <auto kKernel, class... Given>
[[nodiscard]] bool call(KernelRuntimeContext& ctx, Given&&... given) {
  return internal::Caller<decltype(kKernel)>::call(kKernel, ctx, static_cast<Given&&>(given)...);
}

/// Does the same as call(), for a kernel that takes its arguments boxed.
template <class... Given>
[[nodiscard]] bool call_boxed(
    void (*kernel)(KernelRuntimeContext&, Span<EValue*>),
    KernelRuntimeContext& ctx,
    Given&&... given) {
  return internal::invoke_boxed(kernel, ctx, internal::Box(static_cast<Given&&>(given))...);
}

/// A list of tensors, or of optional ones.
template <class T, class... Given>
List<T, sizeof...(Given)> list(Given&&... given) {
  return {{internal::element(static_cast<Given&&>(given))...}};
}

/// An integer that the program has computed; fails the context (InvalidType) if it is none.
inline int64_t integer(KernelRuntimeContext& ctx, const EValue& value) {
  if (!value.isInt()) {
    ctx.fail(Error::InvalidType);
    return 0;
  }
  return value.payload.copyable_union.as_int;
}

/// A jump's condition: a flag, or whether all of a tensor's are set. False after failing the
/// context (InvalidProgram) for what is neither.
bool is_true(KernelRuntimeContext& ctx, const Tensor& condition);
bool is_true(KernelRuntimeContext& ctx, const EValue& condition);
inline bool is_true(KernelRuntimeContext& ctx, const TensorData& condition) {
  return is_true(ctx, condition.tensor());
}
inline bool is_true(KernelRuntimeContext&, bool condition) {
  return condition;
}

} // namespace torch::executor::native
