#include "kernels/util/elementwise.h"

namespace torch {
namespace executor {
namespace native {

ScalarType
compute_dtype(KernelRuntimeContext& ctx, ScalarType common, Compute compute, ScalarType out) {
  if (compute == Compute::Floating && !is_floating(common) && common != ScalarType::Undefined) {
    common = ScalarType::Float;
  }
  KERNEL_CHECK(
      ctx,
      can_cast(common, out),
      InvalidType,
      ScalarType::Undefined,
      "A result of dtype %d cannot be written to an out of dtype %d",
      static_cast<int>(common),
      static_cast<int>(out));
  return common;
}

} // namespace native
} // namespace executor
} // namespace torch
