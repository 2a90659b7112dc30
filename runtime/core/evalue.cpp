#include <executorch/runtime/core/evalue.h>

namespace executorch::runtime {

using executorch::aten::Tensor;

template <>
Result<ArrayRef<std::optional<Tensor>>> BoxedEvalueList<std::optional<Tensor>>::tryGet() const {
  // The elements are made anew, as those of a list that was never read are raw memory.
  for (size_t i = 0; i < wrapped_vals_.size(); ++i) {
    const EValue* value = wrapped_vals_[i];
    // An element is absent where the program gives no index for it or the index of a None.
    if (value == nullptr || value->isNone()) {
      new (&unwrapped_vals_[i]) std::optional<Tensor>();
    } else if (value->isTensor()) {
      new (&unwrapped_vals_[i]) std::optional<Tensor>(value->payload.as_tensor);
    } else {
      return Error::InvalidType;
    }
  }
  return ArrayRef<std::optional<Tensor>>(unwrapped_vals_, wrapped_vals_.size());
}

template <>
ArrayRef<std::optional<Tensor>> BoxedEvalueList<std::optional<Tensor>>::get() const {
  Result<ArrayRef<std::optional<Tensor>>> list = tryGet();
  ET_CHECK_MSG(list.ok(), "an element of the list is neither a tensor nor None");
  return *list;
}

} // namespace executorch::runtime
