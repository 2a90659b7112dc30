#include "smooth.h"

#include "kernels/util/checks.h"

namespace mine {

using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

Tensor& smooth_out(KernelRuntimeContext& ctx, const Tensor& x, double alpha, Tensor& out) {
  KERNEL_CHECK(ctx, x.dim() >= 1, InvalidArgument, out, "x has no dim");
  if (!torch::executor::native::resize_out(ctx, out, x.sizes())) {
    return out;
  }
  const float weight = static_cast<float>(alpha);
  const size_t steps = static_cast<size_t>(x.size(x.dim() - 1));
  const size_t count = static_cast<size_t>(x.numel());
  const float* const in = x.const_data_ptr<float>();
  float* const y = out.mutable_data_ptr<float>();
  for (size_t i = 0; i < count; ++i) {
    y[i] = i % steps == 0 ? in[i] : weight * in[i] + (1 - weight) * y[i - 1];
  }
  return out;
}

} // namespace mine
