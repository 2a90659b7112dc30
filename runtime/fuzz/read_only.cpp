#include "runtime/fuzz/read_only.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace torch_fusion::fuzz {

ReadOnlyCopy::ReadOnlyCopy(const uint8_t* data, size_t size) : memory_size_(size + 4096) {
  void* const memory =
      mmap(nullptr, memory_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::abort();
  }
  data_ = static_cast<uint8_t*>(memory);
  std::copy_n(data, size, data_);
  mprotect(data_, memory_size_, PROT_READ);
  // The memory after the program must not be accessed.
  ASAN_POISON_MEMORY_REGION(data_ + size, memory_size_ - size);
}

ReadOnlyCopy::~ReadOnlyCopy() {
  ASAN_UNPOISON_MEMORY_REGION(data_, memory_size_);
  munmap(data_, memory_size_);
}

} // namespace torch_fusion::fuzz
