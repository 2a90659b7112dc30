#include <executorch/runtime/kernel/operator_registry.h>

#include "runtime/kernel/kernel_lookup.h"
#include "runtime/kernel/static_kernels.h"

namespace executorch {
namespace runtime {

namespace internal {

bool is_kernel_of(const Kernel& kernel, std::string_view name, std::string_view overload) {
  const char* rest = kernel.name_;
  const auto skip = [&rest](std::string_view text) {
    for (const char character : text) {
      // Stops at the NUL that ends the kernel's name, unless the text itself has one; then the next
      // character differs.
      if (*rest != character || character == '\0') {
        return false;
      }
      ++rest;
    }
    return true;
  };
  if (!skip(name)) {
    return false;
  }
  return (overload.empty() || (*rest == '.' && (++rest, skip(overload)))) && *rest == '\0';
}

OpFunction find_kernel(
    Span<const Kernel> kernels,
    size_t guess,
    std::string_view name,
    std::string_view overload) {
  const auto is_it = [name, overload](const Kernel& kernel) {
    return kernel.kernel_key_.is_fallback() && is_kernel_of(kernel, name, overload);
  };
  if (guess < kernels.size() && is_it(kernels[guess])) {
    return kernels[guess].op_;
  }
  for (const Kernel& kernel : kernels) {
    if (is_it(kernel)) {
      return kernel.op_;
    }
  }
  return nullptr;
}

} // namespace internal

Span<const Kernel> get_registered_kernels() {
  return internal::registered_kernels != nullptr ? internal::registered_kernels()
                                                 : internal::kStaticKernels;
}

} // namespace runtime
} // namespace executorch
