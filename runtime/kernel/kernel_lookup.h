#pragma once

#include <string_view>

#include <executorch/runtime/core/span.h>
#include <executorch/runtime/kernel/operator_registry.h>

namespace executorch::runtime::internal {

/**
 * Finds the kernel of an operator that takes all dtypes and dim orders (one without a kernel key).
 *
 * @param[in] kernels Where to look.
 * @param[in] guess Index to look at first.
 * @param[in] name The operator's name, such as "aten::add" or "aten::add.out"; a NUL follows it.
 * @param[in] overload Its overload, such as "out"; empty if it has none or the name holds it. A
 *     NUL follows it.
 * @returns The kernel, or nullptr.
 */
OpFunction find_kernel(
    Span<const Kernel> kernels,
    size_t guess,
    const std::string_view& name,
    const std::string_view& overload);

/**
 * True if an operator has a kernel with a kernel key, so that each call's arguments choose the
 * kernel.
 *
 * This and find_kernel_for_arguments() are linked, and used by Method, only in images that register
 * kernels at run time or look kernels up by key: the generated registry has no keys.
 */
ET_WEAK bool has_kernel_with_key(
    Span<const Kernel> kernels,
    const std::string_view& name,
    const std::string_view& overload);

/// True if a kernel key is one that a call can have.
bool is_valid_key(const KernelKey& key);

/**
 * Finds the kernel of an operator for the dtypes and dim orders of a call's tensors, falling back
 * on one without a kernel key.
 *
 * @param[in] arguments The call's arguments.
 */
ET_WEAK OpFunction find_kernel_for_arguments(
    Span<const Kernel> kernels,
    const std::string_view& name,
    const std::string_view& overload,
    Span<EValue*> arguments);

/**
 * Checks what is in the constant of a packed layer, when a method is loaded: all that its kernel
 * relies on and does not check at each call.
 *
 * Defined only in images with kernels of packed layers.
 *
 * @returns Ok, or the error that the kernel would fail with.
 */
ET_WEAK Error check_packed(const executorch::aten::Tensor& constant);

/// The kernels that register_kernels() registered, after the static ones. Linked only where
/// register_kernels() is.
ET_WEAK Span<const Kernel> registered_kernels();

/// True if a kernel's name is that of an operator.
bool is_kernel_of(
    const Kernel& kernel,
    const std::string_view& name,
    const std::string_view& overload);

} // namespace executorch::runtime::internal
