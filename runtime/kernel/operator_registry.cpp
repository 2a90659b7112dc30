#include <executorch/runtime/kernel/operator_registry.h>

#include "runtime/kernel/kernel_lookup.h"
#include "runtime/kernel/static_kernels.h"

namespace executorch::runtime {

namespace internal {

namespace {

// Skips a text, which a NUL follows, that a C string begins with; nullptr if it begins otherwise.
const char* skip(const char* string, std::string_view text) {
  const char* next = text.data();
  uint32_t character;
  uint32_t expected;
  // The NUL after the text differs, or ends the string too.
  do {
    character = static_cast<uint8_t>(*string++);
    expected = static_cast<uint8_t>(*next++);
  } while (character == expected && character != 0);
  return next - 1 == text.data() + text.size() ? string - 1 : nullptr;
}

} // namespace

bool is_kernel_of(
    const Kernel& kernel,
    const std::string_view& name,
    const std::string_view& overload) {
  const char* rest = skip(kernel.name_, name);
  if (rest != nullptr && !overload.empty()) {
    rest = *rest == '.' ? skip(rest + 1, overload) : nullptr;
  }
  return rest != nullptr && *rest == '\0';
}

OpFunction find_kernel(
    Span<const Kernel> kernels,
    size_t guess,
    const std::string_view& name,
    const std::string_view& overload) {
  // Round the table, from the guess on.
  size_t index = guess;
  for (size_t left = kernels.size(); left != 0; --left, ++index) {
    if (index >= kernels.size()) {
      index = 0;
    }
    const Kernel& kernel = kernels[index];
    if (kernel.kernel_key_.is_fallback() && is_kernel_of(kernel, name, overload)) {
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

} // namespace executorch::runtime
