#include "kernels/prim/op_et_copy_index.h"

#include "kernels/util/checks.h"
#include "kernels/util/view.h"

namespace torch::executor::native {

void et_copy_index(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  using internal::TagSet;
  static constexpr TagSet kTags[] = {
      static_cast<TagSet>(internal::tags(Tag::Tensor) | internal::kWritten),
      internal::tags(Tag::Tensor),
      internal::tags(Tag::Int)};
  if (!internal::check_arguments(ctx, stack, kTags, 3)) {
    return;
  }
  Tensor& to = stack[0]->payload.as_tensor;
  const Tensor& from = stack[1]->payload.as_tensor;
  const int64_t index = stack[2]->payload.copyable_union.as_int;
  KERNEL_CHECK(ctx, to.dim() > 0, InvalidArgument, , "copy_to has no dims");
  if (!same_dtype_or_fail(ctx, to, from)) {
    return;
  }
  const auto* const impl = to.unsafeGetTensorImpl();
  const bool is_static = impl->shape_dynamism() == executorch::aten::TensorShapeDynamism::STATIC;
  KERNEL_CHECK(
      ctx,
      index >= 0 && index < (is_static ? to.sizes()[0] : INT32_MAX),
      InvalidArgument,
      ,
      "index %d is out of range",
      static_cast<int>(index));
  if (!is_static) {
    Shape sizes;
    sizes.append(static_cast<SizesType>(index + 1));
    for (const SizesType size : from.sizes()) {
      sizes.append(size);
    }
    if (!resize_out(ctx, to, sizes)) {
      return;
    }
  }
  View part(to);
  part.select(0, static_cast<int32_t>(index));
  KERNEL_CHECK(
      ctx,
      same_sizes(part.shape, from.sizes()),
      InvalidArgument,
      ,
      "copy_from does not have the shape of a part of copy_to");
  copy_view(View(from), part);
}

} // namespace torch::executor::native
