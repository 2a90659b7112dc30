#include "kernels/portable/op_binary.h"

namespace torch::executor::native {

namespace {

bool divides_integers(const Tensor& self, ScalarType other) {
  return !is_floating(self.scalar_type()) && !is_floating(other) && self.numel() != 0;
}

bool nonzero_or_fail(KernelRuntimeContext& ctx, bool is_nonzero) {
  CHECK_ARGUMENT(ctx, is_nonzero, "Integers are divided by zero");
  return true;
}

} // namespace

bool check_divisor(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other) {
  if (!divides_integers(self, other.scalar_type())) {
    return true;
  }
  // An integer is zero if its bytes are.
  const size_t size = static_cast<size_t>(other.element_size());
  const char* bytes = static_cast<const char*>(other.const_data_ptr());
  bool is_nonzero = true;
  for (size_t i = static_cast<size_t>(other.numel()); i > 0; --i) {
    char any = 0;
    for (size_t byte = 0; byte < size; ++byte) {
      any = static_cast<char>(any | *bytes++);
    }
    is_nonzero = is_nonzero && any != 0;
  }
  return nonzero_or_fail(ctx, is_nonzero);
}

bool check_divisor(KernelRuntimeContext& ctx, const Tensor& self, const Scalar& other) {
  return !divides_integers(self, scalar_dtype(other)) ||
      nonzero_or_fail(ctx, scalar_to_int(other) != 0);
}

} // namespace torch::executor::native
