#include "leaky.h"

#include "kernels/util/checks.h"
#include "tests/own_operator/filters/decay.h"

namespace mine {

using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

Tensor& leak_out(KernelRuntimeContext& ctx, const Tensor& x, double rate, Tensor& out) {
  KERNEL_CHECK(ctx, x.dim() >= 1, InvalidArgument, out, "x has no dim");
  if (!torch::executor::native::resize_out(ctx, out, x.sizes())) {
    return out;
  }
  const size_t steps = static_cast<size_t>(x.size(x.dim() - 1));
  const size_t count = static_cast<size_t>(x.numel());
  const float* const in = x.const_data_ptr<float>();
  float* const y = out.mutable_data_ptr<float>();
  for (size_t i = 0; i < count; ++i) {
    y[i] = in[i] + (i % steps == 0 ? 0 : decay(y[i - 1], static_cast<float>(rate)));
  }
  return out;
}

} // namespace mine
