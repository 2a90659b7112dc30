#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/span.h>

// Hosts may execute methods on several threads at once; the cores have no threads that the compiler
// knows of.
#if defined(__linux__) || defined(__APPLE__)
#define TORCH_FUSION_THREAD_LOCAL thread_local
#else
#define TORCH_FUSION_THREAD_LOCAL
#endif

namespace executorch::runtime::internal {

/// The addresses of the constants of the method that is executing.
struct ConstantData {
  uintptr_t begin;
  size_t size;
};

/// Set by Method while it executes; empty otherwise.
extern TORCH_FUSION_THREAD_LOCAL ConstantData constant_data;

/**
 * True if an address is inside the constants of the executing method: in flash, where a write
 * faults.
 *
 * A kernel that writes to a tensor checks this first, because a corrupted program may name a
 * constant as an output.
 */
inline bool is_constant_data(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - constant_data.begin < constant_data.size;
}

} // namespace executorch::runtime::internal
