#include "runtime/executor/arena.h"

namespace executorch {
namespace runtime {
namespace internal {

uint8_t* Arena::take(size_t count, size_t size, size_t alignment) {
  size_t bytes = 0;
  size_t start = used_;
  if (__builtin_add_overflow(start, alignment - 1, &start) ||
      __builtin_mul_overflow(count, size, &bytes)) {
    used_ = SIZE_MAX;
    return nullptr;
  }
  start &= ~(alignment - 1);
  if (__builtin_add_overflow(start, bytes, &used_)) {
    used_ = SIZE_MAX;
    return nullptr;
  }
  return fits() ? block_ + start : nullptr;
}

} // namespace internal
} // namespace runtime
} // namespace executorch
