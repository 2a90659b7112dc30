#pragma once

#include <executorch/runtime/core/span.h>
#include <executorch/runtime/kernel/operator_registry.h>

namespace executorch::runtime::internal {

/**
 * The kernels of an image, known at build time: a constant table in flash, without registration at
 * start-up.
 *
 * tools/pipeline/registry generates the definition from the programs of the image, with one
 * `Kernel` per operator, in the order of the program's `operators` list, so that Method finds an
 * operator's kernel at its own index without a search:
 *
 * @code
 *   #include "runtime/kernel/static_kernels.h"
 *
 *   namespace executorch::runtime::internal {
 *   namespace {
 *   constexpr Kernel kKernels[] = {Kernel("aten::add.out",
 * &boxed<&torch::executor::native::add_out<...>>)}; } // namespace extern const Span<const Kernel>
 * kStaticKernels; const Span<const Kernel> kStaticKernels = {kKernels}; } // namespace
 * executorch::runtime::internal
 * @endcode
 *
 * A name is "<namespace>::<operator>.<overload>", or "<namespace>::<operator>" where the overload
 * is empty. An image without operators defines the table as `{}`. Where nothing defines it, the
 * runtime's own empty table is linked.
 */
extern const Span<const Kernel> kStaticKernels;

} // namespace executorch::runtime::internal
