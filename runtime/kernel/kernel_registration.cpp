// Registration of kernels at run time, for applications that have no generated registry.

#include <executorch/runtime/kernel/operator_registry.h>

#include "runtime/kernel/kernel_lookup.h"
#include "runtime/kernel/static_kernels.h"

// The largest number of kernels that an image can register, static ones included. ExecuTorch's name
// for it.
#ifndef MAX_KERNEL_NUM
#define MAX_KERNEL_NUM 512
#endif

namespace executorch::runtime {

namespace {

// A union, so that the table needs no constructor to run at start-up.
union Slot {
  constexpr Slot() : unused() {}
  char unused;
  Kernel kernel;
};

Slot table[MAX_KERNEL_NUM];
size_t table_size = 0;

Span<const Kernel> registered() {
  return {&table[0].kernel, table_size};
}

Error add(const Kernel& kernel) {
  ET_CHECK_OR_RETURN_ERROR(
      internal::is_valid_key(kernel.kernel_key_),
      InvalidArgument,
      "kernel %s has an unknown kind of key",
      kernel.name_);
  for (const Kernel& other : registered()) {
    ET_CHECK_OR_RETURN_ERROR(
        std::strcmp(kernel.name_, other.name_) != 0 || kernel.kernel_key_ != other.kernel_key_,
        RegistrationAlreadyRegistered,
        "kernel %s is registered already",
        kernel.name_);
  }
  ET_CHECK_OR_RETURN_ERROR(
      table_size < MAX_KERNEL_NUM,
      RegistrationExceedingMaxKernels,
      "no room for kernel %s: MAX_KERNEL_NUM is %d",
      kernel.name_,
      MAX_KERNEL_NUM);
  new (&table[table_size++].kernel) Kernel(kernel);
  return Error::Ok;
}

} // namespace

namespace internal {

Span<const Kernel> registered_kernels() {
  if (table_size == 0) {
    for (const Kernel& kernel : kStaticKernels) {
      ET_CHECK(add(kernel) == Error::Ok);
    }
  }
  return registered();
}

} // namespace internal

Error register_kernels(const Span<const Kernel> kernels) {
  // Copies the static ones first, so that the table holds all.
  internal::registered_kernels();
  for (const Kernel& kernel : kernels) {
    const Error error = add(kernel);
    ET_CHECK_MSG(error == Error::Ok, "cannot register kernel %s", kernel.name_);
  }
  return Error::Ok;
}

} // namespace executorch::runtime
