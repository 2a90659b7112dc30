#pragma once

#include "kernels/util/checks.h"

namespace torch::executor::native {

/// Copies matrices and writes zeros above the diagonal, or below it.
void triangle(const Tensor& self, int64_t diagonal, bool is_upper, Tensor& out);

namespace internal {

template <class S>
Tensor& triangle_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t diagonal,
    bool is_upper,
    Tensor& out) {
  KERNEL_CHECK(ctx, self.dim() >= 2, InvalidArgument, out, "self is no matrix");
  if (check_contiguous<S>(ctx, self, out) && same_dtype_or_fail(ctx, self, out) &&
      shape_like<S>(ctx, out, self)) {
    triangle(self, diagonal, is_upper, out);
  }
  return out;
}

} // namespace internal

/// aten::tril.out
template <class S>
Tensor& tril_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t diagonal, Tensor& out) {
  return internal::triangle_out<S>(ctx, self, diagonal, false, out);
}

/// aten::triu.out
template <class S>
Tensor& triu_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t diagonal, Tensor& out) {
  return internal::triangle_out<S>(ctx, self, diagonal, true, out);
}

} // namespace torch::executor::native
