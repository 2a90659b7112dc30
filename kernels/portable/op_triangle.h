#pragma once

#include "kernels/util/checks.h"

namespace torch::executor::native {

/// Copies matrices and writes zeros above the diagonal, or below it.
void triangle(const Tensor& self, int64_t diagonal, bool is_upper, Tensor& out);

/// aten::tril.out and triu.out.
template <class S, bool kIsUpper>
Tensor& triangle_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t diagonal, Tensor& out) {
  KERNEL_CHECK(ctx, self.dim() >= 2, InvalidArgument, out, "self is no matrix");
  if (check_contiguous<S>(ctx, self, out) && same_dtype_or_fail(ctx, self, out) &&
      shape_like<S>(ctx, out, self)) {
    triangle(self, diagonal, kIsUpper, out);
  }
  return out;
}
template <class S>
constexpr auto& tril_out = triangle_out<S, false>;
template <class S>
constexpr auto& triu_out = triangle_out<S, true>;

} // namespace torch::executor::native
