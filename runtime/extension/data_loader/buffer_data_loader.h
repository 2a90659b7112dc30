#pragma once

#include <cstring>

#include <executorch/runtime/core/data_loader.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/result.h>

namespace executorch::extension {

/**
 * A DataLoader of a program in memory, such as flash. Loaded data points into that memory.
 *
 * It has the name and the path of ExecuTorch's class, whose header is not in the wheel: `#include
 * <executorch/extension/data_loader/buffer_data_loader.h>`.
 */
class BufferDataLoader final : public executorch::runtime::DataLoader {
 public:
  /**
   * @param[in] data The program, aligned to 16 bytes. Must outlive the loader and all that is
   * loaded.
   * @param[in] size Its size in bytes.
   */
  BufferDataLoader(const void* data, size_t size) : data_(data), size_(size) {}

  /// Points into the memory; InvalidArgument if [offset, offset + size) is not inside it.
  ET_NODISCARD executorch::runtime::Result<executorch::runtime::FreeableBuffer>
  load(size_t offset, size_t size, ET_UNUSED const SegmentInfo& segment_info) const override {
    if (!contains(offset, size)) {
      return executorch::runtime::Error::InvalidArgument;
    }
    return executorch::runtime::FreeableBuffer(
        static_cast<const uint8_t*>(data_) + offset, size, nullptr);
  }

  /// Copies from the memory; InvalidArgument if [offset, offset + size) is not inside it.
  ET_NODISCARD executorch::runtime::Error load_into(
      size_t offset,
      size_t size,
      ET_UNUSED const SegmentInfo& segment_info,
      void* buffer) const override {
    if (!contains(offset, size)) {
      return executorch::runtime::Error::InvalidArgument;
    }
    std::memcpy(buffer, static_cast<const uint8_t*>(data_) + offset, size);
    return executorch::runtime::Error::Ok;
  }

  ET_NODISCARD executorch::runtime::Result<size_t> size() const override {
    return size_;
  }

 private:
  bool contains(size_t offset, size_t size) const {
    if (offset <= size_ && size <= size_ - offset) {
      return true;
    }
    ET_LOG(Error, "%zu bytes at %zu of %zu", size, offset, size_);
    return false;
  }

  const void* data_;
  size_t size_;
};

} // namespace executorch::extension

namespace torch::executor::util {
using ::executorch::extension::BufferDataLoader;
} // namespace torch::executor::util
