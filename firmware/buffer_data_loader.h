#pragma once

#include <executorch/runtime/core/data_loader.h>

namespace torch_fusion {

/// Gives out parts of a program that lies in memory, where they are: no copy is made. The bytes
/// must outlive everything loaded from them.
class BufferDataLoader final : public executorch::runtime::DataLoader {
 public:
  BufferDataLoader(const void* data, size_t size)
      : data_(static_cast<const uint8_t*>(data)), size_(size) {}

  executorch::runtime::Result<executorch::runtime::FreeableBuffer>
  load(size_t offset, size_t size, const SegmentInfo&) const override {
    if (offset > size_ || size > size_ - offset) {
      return executorch::runtime::Error::InvalidArgument;
    }
    return executorch::runtime::FreeableBuffer(data_ + offset, size, nullptr);
  }

  executorch::runtime::Result<size_t> size() const override {
    return size_;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

} // namespace torch_fusion
