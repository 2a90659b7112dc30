#pragma once

#include <executorch/runtime/core/memory_allocator.h>

namespace torch_fusion {

/// A MemoryAllocator that remembers how much of it was in use at most. The runtime resets the
/// allocator of temporary memory after every kernel, so that used_size() alone says nothing about
/// the run.
class HighWaterAllocator : public executorch::runtime::MemoryAllocator {
 public:
  HighWaterAllocator(uint32_t size, uint8_t* base_address) : MemoryAllocator(size, base_address) {}

  void reset() override {
    high_water_ = high_water();
    MemoryAllocator::reset();
  }

  /// The most bytes in use at one time so far.
  size_t high_water() const {
    const size_t used = MemoryAllocator::used_size();
    return used > high_water_ ? used : high_water_;
  }

 private:
  size_t high_water_ = 0;
};

} // namespace torch_fusion
