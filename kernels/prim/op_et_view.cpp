#include "kernels/prim/op_et_view.h"

#include "kernels/util/checks.h"
#include "kernels/util/shape.h"
#include "runtime/core/tensor_view.h"

namespace torch::executor::native {

void et_view(KernelRuntimeContext& ctx, Span<EValue*> stack) {
  KERNEL_CHECK(ctx, stack.size() >= 3, InvalidProgram, , "The call has too few arguments");
  KERNEL_CHECK(
      ctx,
      stack[0]->tag == Tag::Tensor && stack[1]->tag == Tag::ListInt && stack[2]->tag == Tag::Tensor,
      InvalidType,
      ,
      "The arguments are not a tensor, a list of integers, and a tensor");
  const Tensor& self = stack[0]->payload.as_tensor;
  Tensor& out = stack[2]->payload.as_tensor;
  const ArrayRef<int64_t> size = internal::int_list(ctx, *stack[1]);
  Shape out_sizes;
  if (ctx.failure_state() != Error::Ok || !same_dtype_or_fail(ctx, self, out) ||
      !infer_view(ctx, self, size, out_sizes) || !resize_out(ctx, out, out_sizes)) {
    return;
  }
  KERNEL_CHECK(
      ctx,
      self.numel() == 0 || self.const_data_ptr() != nullptr,
      InvalidState,
      ,
      "self is a tensor without memory");
  executorch::runtime::internal::make_view(out, self);
}

} // namespace torch::executor::native
