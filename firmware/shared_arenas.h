#pragma once

#include <stddef.h>

#include <array>

/// Arenas that several programs of one image share: the generated model_programs.h places them.

namespace torch_fusion {

/// Alignment of each program's part of an arena, and of the arenas: one of them may be an NPU's,
/// which works in whole lines of the core's data cache.
inline constexpr size_t kArenaAlignment = 32;

/**
 * Places what programs need in one arena.
 *
 * @param[in] sizes Bytes that each program needs.
 * @param[in] own Whether a program's part is its own; the parts of all others lie over each other,
 * at the start.
 *
 * @returns The offset of each program's part in bytes, and, as last element, the bytes of the
 * arena.
 */
template <size_t kCount>
constexpr std::array<size_t, kCount + 1> arena_offsets(
    const size_t (&sizes)[kCount],
    const bool (&own)[kCount]) {
  std::array<size_t, kCount + 1> offsets{};
  size_t end = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (!own[i] && sizes[i] > end) {
      end = sizes[i];
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    if (own[i]) {
      offsets[i] = (end + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
      end = offsets[i] + sizes[i];
    }
  }
  offsets[kCount] = end;
  return offsets;
}

} // namespace torch_fusion
