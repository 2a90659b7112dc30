#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/span.h>

namespace executorch::runtime::internal {

/**
 * The backends of an image, known at build time, without registration at start-up.
 *
 * tools/pipeline/registry generates the definition from the delegates of the image's programs.
 * Where nothing defines it, the runtime's own empty one is linked.
 */
extern const Span<const Backend> kStaticBackends;

/// The backends that register_backend() registered, after the static ones. Linked only where
/// register_backend() is.
ET_WEAK Span<const Backend> registered_backends();

} // namespace executorch::runtime::internal
