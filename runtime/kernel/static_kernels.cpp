#include "runtime/kernel/static_kernels.h"

namespace executorch::runtime::internal {

// The table of images without a generated registry, whose kernels are registered at run time or
// passed to load_method().
ET_WEAK extern const Span<const Kernel> kStaticKernels = {};

} // namespace executorch::runtime::internal
