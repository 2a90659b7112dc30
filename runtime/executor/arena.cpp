#include "runtime/executor/arena.h"

namespace executorch::runtime::internal {

uint8_t* Arena::take(size_t count, size_t size, size_t alignment) {
  const size_t start = (used_ + (alignment - 1)) & ~(alignment - 1);
  if (start <= capacity_ && count <= (capacity_ - start) / size) {
    used_ = start + count * size;
    return block_ + start;
  }
  // The block is too small. Saturates where the address space ends; an alignment that
  // overflows gives 0.
  size_t bytes = 0;
  if (start < used_ || __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(start, bytes, &used_)) {
    used_ = SIZE_MAX;
  }
  return nullptr;
}

} // namespace executorch::runtime::internal
