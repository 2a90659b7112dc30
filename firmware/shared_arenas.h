#pragma once

#include <stddef.h>

#include <array>

/// Arenas that several programs of one image share: the generated model_programs.h places them.

namespace torch_fusion {

/// Alignment of each program's part of an arena, and of the arenas: one of them may be an NPU's,
/// which works in whole lines of the core's data cache.
inline constexpr size_t kArenaAlignment = 32;

/// A program's need of an arena: bytes, and whether they are its own. The parts of all others
/// overlap, at the start.
struct ArenaPart {
  size_t size;
  bool is_own;
};

/// The largest of some sizes.
template <size_t kCount>
constexpr size_t largest(const size_t (&sizes)[kCount]) {
  size_t result = 0;
  for (const size_t size : sizes) {
    result = size > result ? size : result;
  }
  return result;
}

/**
 * Places what programs need in one arena.
 *
 * @returns The offset of each program's part in bytes, and, as last element, the bytes of the
 * arena.
 */
template <size_t kCount>
constexpr std::array<size_t, kCount + 1> arena_offsets(const ArenaPart (&parts)[kCount]) {
  std::array<size_t, kCount + 1> offsets{};
  size_t end = 0;
  for (const ArenaPart& part : parts) {
    if (!part.is_own && part.size > end) {
      end = part.size;
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    if (parts[i].is_own) {
      offsets[i] = (end + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
      end = offsets[i] + parts[i].size;
    }
  }
  offsets[kCount] = end;
  return offsets;
}

} // namespace torch_fusion
