#include "kernels/call.h"

#include "kernels/util/checks.h"

namespace torch::executor::native {

bool is_true(KernelRuntimeContext& ctx, const Tensor& condition) {
  const auto* const flags = static_cast<const uint8_t*>(condition.const_data_ptr());
  KERNEL_CHECK(
      ctx,
      condition.scalar_type() == ScalarType::Bool && (flags != nullptr || condition.numel() == 0),
      InvalidProgram,
      false,
      "A jump's condition is no flag");
  for (size_t i = 0; i < condition.nbytes(); ++i) {
    if (flags[i] == 0) {
      return false;
    }
  }
  return true;
}

bool is_true(KernelRuntimeContext& ctx, const EValue& condition) {
  if (condition.isTensor()) {
    return is_true(ctx, condition.payload.as_tensor);
  }
  KERNEL_CHECK(ctx, condition.isBool(), InvalidProgram, false, "A jump's condition is no flag");
  return condition.payload.copyable_union.as_bool;
}

} // namespace torch::executor::native
