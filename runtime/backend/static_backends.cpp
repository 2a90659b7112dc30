#include "runtime/backend/static_backends.h"

namespace executorch::runtime::internal {

// This is for images without a generated registry, whose backends are registered at run time.
ET_WEAK extern const Span<const Backend> kStaticBackends = {};

} // namespace executorch::runtime::internal
