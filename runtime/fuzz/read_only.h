#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_fusion::fuzz {

/// A copy of bytes as a device has a program: writing to it is a fault, and so is reading beyond
/// its end.
class ReadOnlyCopy final {
 public:
  ReadOnlyCopy(const uint8_t* data, size_t size);
  ~ReadOnlyCopy();
  ReadOnlyCopy(const ReadOnlyCopy&) = delete;
  ReadOnlyCopy& operator=(const ReadOnlyCopy&) = delete;

  /// Aligned to a page.
  const uint8_t* data() const {
    return data_;
  }

 private:
  size_t memory_size_;
  uint8_t* data_;
};

} // namespace torch_fusion::fuzz
