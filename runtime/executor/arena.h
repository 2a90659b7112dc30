#pragma once

#include <cstddef>
#include <cstdint>

namespace executorch::runtime::internal {

/**
 * Counts and places the allocations of a method within one block of memory.
 *
 * Beyond the block's end it continues to count and returns null pointers, so that the required size
 * is known in the end. tools/pipeline/link models Method's allocations step by step.
 */
class Arena final {
 public:
  /// Alignment of the block, and the largest that take() knows.
  static constexpr size_t kAlignment = alignof(int64_t);

  Arena(uint8_t* block, size_t capacity) : block_(block), capacity_(capacity), used_(0) {}

  /// Memory for `count` objects of type T, not constructed; nullptr if the block is too small.
  template <typename T>
  T* take(size_t count) {
    static_assert(alignof(T) <= kAlignment);
    return reinterpret_cast<T*>(take(count, sizeof(T), alignof(T)));
  }

  /// Bytes taken, counting those that didn't fit; SIZE_MAX if the address space has no room for
  /// them.
  size_t used() const {
    return used_;
  }

  bool fits() const {
    return used_ <= capacity_;
  }

 private:
  uint8_t* take(size_t count, size_t size, size_t alignment);

  uint8_t* block_;
  size_t capacity_;
  size_t used_;
};

} // namespace executorch::runtime::internal
