#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

namespace torch::executor::native {

using executorch::aten::ArrayRef;
using executorch::aten::Scalar;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;
using executorch::runtime::Tag;

namespace internal {

/// A set of tags, one bit each.
using TagSet = uint16_t;

constexpr TagSet tags(Tag tag) {
  return static_cast<TagSet>(1u << static_cast<uint32_t>(tag));
}
constexpr TagSet kNoneTag = tags(Tag::None);
constexpr TagSet kScalarTags = tags(Tag::Int) | tags(Tag::Double) | tags(Tag::Bool);

/**
 * Checks the boxed arguments of a kernel before they are unboxed: their number,
 * their tags, and that every tensor with elements has memory. Otherwise fails
 * the context (InvalidProgram for too few arguments, InvalidType for a wrong
 * tag, InvalidState for a tensor without memory, InvalidProgram for a constant that is written to)
 * and returns false.
 *
 * @param[in] expected The tags allowed for each argument.
 */
bool check_arguments(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    const TagSet* expected,
    size_t count);

/**
 * Checks that no tensor whose shape the kernel may set is also another argument of the call, itself
 * or in a list: the kernel would continue with an outdated shape of the other one. Otherwise fails
 * the context (InvalidProgram) and returns false. The arguments must have passed check_arguments().
 */
bool check_apart(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    const TagSet* expected,
    size_t count);

/// A list of integers that are ready, in the place of a BoxedEvalueList<int64_t>, which makes them
/// from other values: kernels/call.h calls with such lists. `values` is null.
struct ReadyIntList {
  const void* values;
  size_t size;
  const int64_t* items;
};

/**
 * Returns the list in a value whose tag has been checked. Fails the context and returns an empty
 * list if an element has a wrong tag.
 */
ArrayRef<int64_t> int_list(KernelRuntimeContext& ctx, const EValue& value);
ArrayRef<Tensor> tensor_list(KernelRuntimeContext& ctx, const EValue& value);
/// Does the same as tensor_list(), for tensors that the kernel writes to: fails the context for a
/// constant, too.
Span<Tensor> out_list(KernelRuntimeContext& ctx, const EValue& value);
ArrayRef<std::optional<Tensor>> optional_tensor_list(
    KernelRuntimeContext& ctx,
    const EValue& value);

/// The number in a value tagged Int or Double, as the exporter writes either
/// for an argument that the schema calls float.
double floating(const EValue& value);

/// A value tagged Int, Double or Bool as a Scalar.
Scalar scalar(const EValue& value);

/**
 * Defines how an argument of type T is unboxed: `kTags` are the tags that check_arguments()
 * permits, `get` converts after that check, `kCanFail` says whether get() may fail the context.
 */
template <class T>
struct Unbox;

template <Tag kTag>
struct UnboxTag {
  static constexpr TagSet kTags = tags(kTag);
  static constexpr bool kCanFail = false;
};

template <>
struct Unbox<Tensor> : UnboxTag<Tag::Tensor> {
  static Tensor& get(KernelRuntimeContext&, EValue& value) {
    return value.payload.as_tensor;
  }
};

template <>
struct Unbox<int64_t> : UnboxTag<Tag::Int> {
  static int64_t get(KernelRuntimeContext&, EValue& value) {
    return value.payload.copyable_union.as_int;
  }
};

template <>
struct Unbox<bool> : UnboxTag<Tag::Bool> {
  static bool get(KernelRuntimeContext&, EValue& value) {
    return value.payload.copyable_union.as_bool;
  }
};

template <>
struct Unbox<double> {
  static constexpr TagSet kTags = tags(Tag::Double) | tags(Tag::Int);
  static constexpr bool kCanFail = false;
  static double get(KernelRuntimeContext&, EValue& value) {
    return floating(value);
  }
};

template <>
struct Unbox<Scalar> {
  static constexpr TagSet kTags = kScalarTags;
  static constexpr bool kCanFail = false;
  static Scalar get(KernelRuntimeContext&, EValue& value) {
    return scalar(value);
  }
};

/// Dtypes, layouts and memory formats are integers in a program.
template <>
struct Unbox<ScalarType> : UnboxTag<Tag::Int> {
  static ScalarType get(KernelRuntimeContext&, EValue& value) {
    return static_cast<ScalarType>(value.payload.copyable_union.as_int);
  }
};

template <>
struct Unbox<executorch::aten::MemoryFormat> : UnboxTag<Tag::Int> {
  static executorch::aten::MemoryFormat get(KernelRuntimeContext&, EValue& value) {
    return static_cast<executorch::aten::MemoryFormat>(value.payload.copyable_union.as_int);
  }
};

template <>
struct Unbox<std::string_view> : UnboxTag<Tag::String> {
  static std::string_view get(KernelRuntimeContext&, EValue& value) {
    const auto* text = value.payload.copyable_union.as_string_ptr;
    return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
  }
};

template <>
struct Unbox<ArrayRef<int64_t>> : UnboxTag<Tag::ListInt> {
  static constexpr bool kCanFail = true;
  static ArrayRef<int64_t> get(KernelRuntimeContext& ctx, EValue& value) {
    return int_list(ctx, value);
  }
};

template <>
struct Unbox<ArrayRef<double>> : UnboxTag<Tag::ListDouble> {
  static ArrayRef<double> get(KernelRuntimeContext&, EValue& value) {
    return value.payload.copyable_union.as_double_list_ptr == nullptr
        ? ArrayRef<double>()
        : *value.payload.copyable_union.as_double_list_ptr;
  }
};

template <>
struct Unbox<ArrayRef<bool>> : UnboxTag<Tag::ListBool> {
  static ArrayRef<bool> get(KernelRuntimeContext&, EValue& value) {
    return value.payload.copyable_union.as_bool_list_ptr == nullptr
        ? ArrayRef<bool>()
        : *value.payload.copyable_union.as_bool_list_ptr;
  }
};

template <>
struct Unbox<ArrayRef<Tensor>> : UnboxTag<Tag::ListTensor> {
  static constexpr bool kCanFail = true;
  static ArrayRef<Tensor> get(KernelRuntimeContext& ctx, EValue& value) {
    return tensor_list(ctx, value);
  }
};

template <>
struct Unbox<Span<Tensor>> : UnboxTag<Tag::ListTensor> {
  static constexpr bool kCanFail = true;
  static Span<Tensor> get(KernelRuntimeContext& ctx, EValue& value) {
    return out_list(ctx, value);
  }
};

template <>
struct Unbox<ArrayRef<std::optional<Tensor>>> : UnboxTag<Tag::ListOptionalTensor> {
  static constexpr bool kCanFail = true;
  static ArrayRef<std::optional<Tensor>> get(KernelRuntimeContext& ctx, EValue& value) {
    return optional_tensor_list(ctx, value);
  }
};

template <class T>
struct Unbox<std::optional<T>> {
  static constexpr TagSet kTags = Unbox<T>::kTags | kNoneTag;
  static constexpr bool kCanFail = Unbox<T>::kCanFail;
  static std::optional<T> get(KernelRuntimeContext& ctx, EValue& value) {
    return value.tag == Tag::None ? std::optional<T>()
                                  : std::optional<T>(Unbox<T>::get(ctx, value));
  }
};

template <class T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

/// A tag beside those of an argument: the kernel writes to it. out_list() checks a list that it
/// writes to.
constexpr TagSet kWritten = 1u << 15;

/// The tag sets of an argument list, one table per signature in the image.
template <class... Args>
struct ExpectedTags {
  static constexpr TagSet kTable[] = {static_cast<TagSet>(
      Unbox<Bare<Args>>::kTags | (std::is_same_v<Args, Tensor&> ? kWritten : 0))...};
};

/// True if an argument's type says that the kernel writes to it.
template <class T>
constexpr bool is_written_v = std::is_same_v<T, Tensor&> || std::is_same_v<T, Span<Tensor>>;

/// A bit for each argument that a kernel may write to.
template <class... Args>
constexpr uint32_t written_arguments() {
  uint32_t result = 0;
  uint32_t bit = 1;
  ((result |= is_written_v<Args> ? bit : 0, bit <<= 1), ...);
  return result;
}

/// Stands for an unknown schema: the operator writes to the arguments that its kernel takes as
/// mutable.
constexpr uint32_t kAsTaken = ~uint32_t{0};

template <auto kFn>
struct Boxed;

template <class Return, class... Args, Return (*kFn)(KernelRuntimeContext&, Args...)>
struct Boxed<kFn> {
  /// Returns the kernel of an operator whose schema says that it writes to `kWrites`, or 0 for its
  /// last argument.
  template <uint32_t kWrites, bool kSetsShapes>
  static constexpr auto checked() {
    static_assert(
        kWrites == kAsTaken ||
            written_arguments<Args...>() == (kWrites == 0 ? 1u << (sizeof...(Args) - 1) : kWrites),
        "the arguments that the kernel takes to write to are not those of its operator's schema");
    return &call<kSetsShapes>;
  }

  template <bool kSetsShapes>
  static void call(KernelRuntimeContext& ctx, Span<EValue*> stack) {
    const TagSet* const expected = ExpectedTags<Args...>::kTable;
    if (check_arguments(ctx, stack, expected, sizeof...(Args)) &&
        (!kSetsShapes || check_apart(ctx, stack, expected, sizeof...(Args)))) {
      unpack(ctx, stack.data(), std::index_sequence_for<Args...>());
    }
  }

 private:
  template <size_t... kIndex>
  static void unpack(KernelRuntimeContext& ctx, EValue** stack, std::index_sequence<kIndex...>) {
    invoke(ctx, Unbox<Bare<Args>>::get(ctx, *stack[kIndex])...);
  }

  template <class... Unboxed>
  static void invoke(KernelRuntimeContext& ctx, Unboxed&&... args) {
    if ((Unbox<Bare<Args>>::kCanFail || ...) && ctx.failure_state() != Error::Ok) {
      return;
    }
    kFn(ctx, std::forward<Unboxed>(args)...);
  }
};

} // namespace internal

/**
 * The registry's form of a kernel with a typed signature `R kernel(KernelRuntimeContext&,
 * args...)`: takes the arguments from the values of a kernel call, in the schema's order, out
 * arguments included. Invalid values in a corrupted program fail the context; nothing aborts.
 */
template <auto kFn, uint32_t kWrites = 0, bool kSetsShapes = false>
constexpr auto boxed = internal::Boxed<kFn>::template checked<kWrites, kSetsShapes>();

} // namespace torch::executor::native
