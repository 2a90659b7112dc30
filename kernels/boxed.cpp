#include "kernels/boxed.h"

#include <executorch/runtime/platform/log.h>

#include "kernels/soft_double.h"
#include "runtime/kernel/constant_data.h"

namespace torch::executor::native::internal {

using executorch::aten::TensorImpl;
using executorch::runtime::Result;

namespace {

ET_INLINE bool has_memory(const Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return impl != nullptr && (impl->data() != nullptr || impl->numel() == 0);
}

template <class T>
ArrayRef<T> list_or_fail(KernelRuntimeContext& ctx, const BoxedEvalueList<T>* list) {
  Error error = Error::InvalidState;
  if (list != nullptr) {
    Result<ArrayRef<T>> elements = list->tryGet();
    if (elements.ok()) {
      return *elements;
    }
    error = elements.error();
  }
  ET_LOG(Error, "A list argument has an element of a wrong type");
  ctx.fail(error);
  return {};
}

ET_INLINE bool is_static(const Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->shape_dynamism() ==
      executorch::aten::TensorShapeDynamism::STATIC;
}

/// Fails the context and returns false; not inline, as it would take the registers of its caller.
__attribute__((noinline, cold)) bool fail_argument(
    KernelRuntimeContext& ctx,
    Error error,
    ptrdiff_t index,
    [[maybe_unused]] const char* problem) {
  ET_LOG(Error, "Argument %d %s", static_cast<int>(index), problem);
  static_cast<void>(index);
  ctx.fail(error);
  return false;
}

/// Returns whether an argument is a tensor, or a list that holds it.
bool refers_to(const EValue& value, const TensorImpl* tensor) {
  if (value.tag == Tag::Tensor) {
    return value.payload.as_tensor.unsafeGetTensorImpl() == tensor;
  }
  if (value.tag == Tag::ListTensor) {
    const auto* const list = value.payload.copyable_union.as_tensor_list_ptr;
    // Errors in a list are reported when it is unboxed.
    const Result<ArrayRef<Tensor>> elements =
        list == nullptr ? Error::InvalidState : list->tryGet();
    for (size_t i = 0; elements.ok() && i < elements->size(); ++i) {
      if ((*elements)[i].unsafeGetTensorImpl() == tensor) {
        return true;
      }
    }
  }
  if (value.tag == Tag::ListOptionalTensor) {
    const auto* const list = value.payload.copyable_union.as_list_optional_tensor_ptr;
    const Result<ArrayRef<std::optional<Tensor>>> elements =
        list == nullptr ? Error::InvalidState : list->tryGet();
    for (size_t i = 0; elements.ok() && i < elements->size(); ++i) {
      if ((*elements)[i].has_value() && (*elements)[i]->unsafeGetTensorImpl() == tensor) {
        return true;
      }
    }
  }
  return false;
}

/// Checks that no tensor of a shape that may change, to which the kernel writes, is also another
/// argument, itself or in a list.
__attribute__((noinline)) bool
check_apart(KernelRuntimeContext& ctx, Span<EValue*> stack, const TagSet* expected, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if ((expected[i] & kWritten) == 0 || is_static(stack[i]->payload.as_tensor)) {
      continue;
    }
    const TensorImpl* const tensor = stack[i]->payload.as_tensor.unsafeGetTensorImpl();
    for (size_t j = 0; j < count; ++j) {
      if (j != i && refers_to(*stack[j], tensor)) {
        ET_LOG(Error, "Arguments %zu and %zu are one tensor, whose shape the operator sets", i, j);
        ctx.fail(Error::InvalidProgram);
        return false;
      }
    }
  }
  return true;
}

} // namespace

bool check_arguments(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    const TagSet* expected,
    size_t count,
    bool sets_shapes) {
  if (stack.size() < count) {
    return fail_argument(
        ctx, Error::InvalidProgram, static_cast<ptrdiff_t>(stack.size()), "is missing in the call");
  }
  uint32_t may_set = 0;
  EValue* const* place = stack.data();
  const TagSet* each = expected;
  for (const TagSet* const end = expected + count; each < end; ++each) {
    const EValue& value = **place++;
    const uint32_t allowed = *each;
    if (((allowed >> static_cast<uint32_t>(value.tag)) & 1u) == 0) {
      return fail_argument(
          ctx, Error::InvalidType, each - expected, "is of a type that the operator does not take");
    }
    if (value.tag != Tag::Tensor) {
      continue;
    }
    const Tensor& tensor = value.payload.as_tensor;
    if (!has_memory(tensor)) {
      return fail_argument(ctx, Error::InvalidState, each - expected, "is a tensor without memory");
    }
    if ((allowed & kWritten) != 0) {
      if (executorch::runtime::internal::is_constant_data(tensor.const_data_ptr())) {
        return fail_argument(
            ctx,
            Error::InvalidProgram,
            each - expected,
            "is a constant, and the operator writes to it");
      }
      may_set |= static_cast<uint32_t>(tensor.unsafeGetTensorImpl()->shape_dynamism());
    }
  }
  static_assert(static_cast<uint32_t>(executorch::aten::TensorShapeDynamism::STATIC) == 0);
  const bool sets = sets_shapes && may_set != 0;
  return !sets || check_apart(ctx, stack, expected, count);
}

ArrayRef<int64_t> int_list(KernelRuntimeContext& ctx, const EValue& value) {
  const BoxedEvalueList<int64_t>* list = value.payload.copyable_union.as_int_list_ptr;
  if (list != nullptr) {
    ReadyIntList ready;
    static_assert(sizeof(ready) == sizeof(*list));
    __builtin_memcpy(&ready, list, sizeof(ready));
    if (ready.values == nullptr) {
      return {ready.items, ready.size};
    }
  }
  return list_or_fail(ctx, list);
}

ArrayRef<Tensor> tensor_list(KernelRuntimeContext& ctx, const EValue& value) {
  const ArrayRef<Tensor> tensors =
      list_or_fail(ctx, value.payload.copyable_union.as_tensor_list_ptr);
  for (const Tensor& tensor : tensors) {
    if (!has_memory(tensor)) {
      ET_LOG(Error, "A tensor of a list argument has no memory");
      ctx.fail(Error::InvalidState);
      return {};
    }
  }
  return tensors;
}

Span<Tensor> out_list(KernelRuntimeContext& ctx, const EValue& value) {
  const ArrayRef<Tensor> tensors = tensor_list(ctx, value);
  for (const Tensor& tensor : tensors) {
    if (executorch::runtime::internal::is_constant_data(tensor.const_data_ptr())) {
      ET_LOG(Error, "A tensor of an out list is a constant");
      ctx.fail(Error::InvalidProgram);
      return {};
    }
  }
  return {const_cast<Tensor*>(tensors.data()), tensors.size()};
}

ArrayRef<std::optional<Tensor>> optional_tensor_list(
    KernelRuntimeContext& ctx,
    const EValue& value) {
  const ArrayRef<std::optional<Tensor>> tensors =
      list_or_fail(ctx, value.payload.copyable_union.as_list_optional_tensor_ptr);
  for (const std::optional<Tensor>& tensor : tensors) {
    if (tensor.has_value() && !has_memory(*tensor)) {
      ET_LOG(Error, "A tensor of a list argument has no memory");
      ctx.fail(Error::InvalidState);
      return {};
    }
  }
  return tensors;
}

double floating(const EValue& value) {
  return value.tag == Tag::Double ? value.payload.copyable_union.as_double
                                  : double_of(value.payload.copyable_union.as_int);
}

Scalar scalar(const EValue& value) {
  switch (value.tag) {
    case Tag::Double:
      return value.payload.copyable_union.as_double;
    case Tag::Bool:
      return value.payload.copyable_union.as_bool;
    default:
      return value.payload.copyable_union.as_int;
  }
}

} // namespace torch::executor::native::internal
