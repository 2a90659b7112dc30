#include "kernels/util/strided_copy.h"

#include <cstring>

namespace torch {
namespace executor {
namespace native {

namespace {

template <class T>
void copy_run(const void* from, int32_t stride, void* to, size_t count) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  for (; count > 0; --count, source += stride) {
    *target++ = *source;
  }
}

} // namespace

void strided_copy(
    const void* from,
    void* to,
    const SizesType* sizes,
    const int32_t* strides,
    size_t dims,
    size_t element_size) {
  LoopNest nest;
  nest.init(sizes, strides, dims);
  copy_nest(nest, from, to, element_size);
}

void copy_nest(LoopNest& nest, const void* from, void* to, size_t element_size) {
  if (nest.size() == 0) {
    return;
  }
  const char* const source = static_cast<const char*>(from);
  char* const target = static_cast<char*>(to);
  const int32_t stride = nest.stride(0);
  const size_t count = nest.size();
  do {
    const void* const run_from = source + nest.offset(0) * static_cast<int32_t>(element_size);
    void* const run_to = target + nest.out_offset() * element_size;
    if (stride == 1) {
      std::memmove(run_to, run_from, count * element_size);
    } else if (element_size == sizeof(uint32_t)) {
      copy_run<uint32_t>(run_from, stride, run_to, count);
    } else if (element_size == sizeof(uint8_t)) {
      copy_run<uint8_t>(run_from, stride, run_to, count);
    } else if (element_size == sizeof(uint16_t)) {
      copy_run<uint16_t>(run_from, stride, run_to, count);
    } else {
      copy_run<uint64_t>(run_from, stride, run_to, count);
    }
  } while (nest.next());
}

void block_copy(
    const void* from,
    size_t from_step,
    void* to,
    size_t to_step,
    size_t bytes,
    size_t count) {
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(to);
  for (; count > 0; --count, source += from_step, target += to_step) {
    std::memmove(target, source, bytes);
  }
}

} // namespace native
} // namespace executor
} // namespace torch
