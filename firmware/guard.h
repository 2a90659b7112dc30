#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TORCH_FUSION_GUARD
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TORCH_FUSION_GUARD
#endif

#ifdef TORCH_FUSION_GUARD
#include <sanitizer/asan_interface.h>
#endif

/// Guards memory within an arena that nobody may touch, if the address sanitizer watches. In builds
/// without it nothing is guarded.

namespace torch_fusion {

#ifdef TORCH_FUSION_GUARD
/// Bytes to leave guarded after each block, a multiple of 16.
constexpr size_t kGuardSize = 32;

inline void guard(const void* start, size_t size) {
  ASAN_POISON_MEMORY_REGION(start, size);
}

/// `start` must be a multiple of 8.
inline void unguard(const void* start, size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(start, size);
}
#else
constexpr size_t kGuardSize = 0;

inline void guard(const void*, size_t) {}

inline void unguard(const void*, size_t) {}
#endif

} // namespace torch_fusion
