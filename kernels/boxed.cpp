#include "kernels/boxed.h"

#include <executorch/runtime/platform/log.h>

#include "kernels/soft_double.h"
#include "runtime/kernel/constant_data.h"

namespace torch::executor::native::internal {

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

} // namespace

bool check_arguments(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    const TagSet* expected,
    size_t count) {
  if (stack.size() < count) {
    ET_LOG(Error, "The call has %zu arguments, the operator takes %zu", stack.size(), count);
    ctx.fail(Error::InvalidProgram);
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    const EValue& value = *stack[i];
    const uint32_t allowed = expected[i];
    const uint32_t tag = static_cast<uint32_t>(value.tag);
    if (((allowed >> tag) & 1u) == 0) {
      ET_LOG(
          Error,
          "Argument %zu has type tag %u, which the operator does not take",
          i,
          static_cast<unsigned>(tag));
      ctx.fail(Error::InvalidType);
      return false;
    }
    if (value.tag != Tag::Tensor) {
      continue;
    }
    if (!has_memory(value.payload.as_tensor)) {
      ET_LOG(Error, "Argument %zu is a tensor without memory", i);
      ctx.fail(Error::InvalidState);
      return false;
    }
    if ((allowed & kWritten) != 0 &&
        executorch::runtime::internal::is_constant_data(value.payload.as_tensor.const_data_ptr())) {
      ET_LOG(Error, "Argument %zu is a constant, and the operator writes to it", i);
      ctx.fail(Error::InvalidProgram);
      return false;
    }
  }
  return true;
}

namespace {

using executorch::aten::TensorImpl;

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

} // namespace

bool check_apart(
    KernelRuntimeContext& ctx,
    Span<EValue*> stack,
    const TagSet* expected,
    size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if ((expected[i] & kWritten) == 0) {
      continue;
    }
    const TensorImpl* const tensor = stack[i]->payload.as_tensor.unsafeGetTensorImpl();
    if (tensor->shape_dynamism() == executorch::aten::TensorShapeDynamism::STATIC) {
      continue;
    }
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
