#include "kernels/util/view.h"

#include <cstdlib>
#include <cstring>

#include "kernels/util/loop_nest.h"

namespace torch {
namespace executor {
namespace native {

View::View(const Tensor& tensor)
    : data(static_cast<char*>(tensor.mutable_data_ptr())),
      element_size(static_cast<int32_t>(tensor.element_size())),
      shape(tensor.sizes()) {
  strides_of(tensor, strides);
}

void View::slice(size_t dim, int32_t start, int32_t step, int32_t count) {
  shape.sizes[dim] = count;
  if (count > 0) {
    move(start * strides[dim]);
  }
  // One index has no neighbour, and a step beyond the end may not fit.
  strides[dim] = count > 1 ? strides[dim] * step : 0;
}

void View::select(size_t dim, int32_t index) {
  slice(dim, index, 1, 1);
  --shape.dims;
  for (size_t i = dim; i < shape.dims; ++i) {
    shape.sizes[i] = shape.sizes[i + 1];
    strides[i] = strides[i + 1];
  }
}

void View::flip(size_t dim) {
  slice(dim, shape.sizes[dim] - 1, -1, shape.sizes[dim]);
}

void View::transpose(size_t dim0, size_t dim1) {
  const SizesType size = shape.sizes[dim0];
  const int32_t stride = strides[dim0];
  shape.sizes[dim0] = shape.sizes[dim1];
  strides[dim0] = strides[dim1];
  shape.sizes[dim1] = size;
  strides[dim1] = stride;
}

void View::move_dim(size_t from, size_t to) {
  for (; from < to; ++from) {
    transpose(from, from + 1);
  }
  for (; from > to; --from) {
    transpose(from, from - 1);
  }
}

void View::split(size_t dim, SizesType inner) {
  append(inner, strides[dim]);
  move_dim(shape.dims - 1, dim + 1);
  shape.sizes[dim] /= inner;
  strides[dim] *= inner;
}

void View::append(SizesType size, int32_t stride) {
  if (shape.dims < kMaxDims) {
    strides[shape.dims] = stride;
    shape.append(size);
  }
}

namespace {

template <class T>
void copy_run(const char* from, int32_t from_stride, char* to, int32_t to_stride, size_t count) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  for (; count > 0; --count, source += from_stride, target += to_stride) {
    *target = *source;
  }
}

/// Rows up to this long, as those of an image's pixels, are copied without a call.
constexpr size_t kShortBytes = 64;

inline void copy_short(const char* from, char* to, size_t bytes) {
  for (; bytes >= sizeof(uint32_t); bytes -= sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    std::memcpy(to, &word, sizeof(word));
    from += sizeof(word);
    to += sizeof(word);
  }
  for (; bytes > 0; --bytes) {
    *to++ = *from++;
  }
}

} // namespace

void copy_bytes(const char* from, char* to, size_t bytes) {
  if (bytes <= kShortBytes) {
    copy_short(from, to, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
}

void copy_strided(
    const char* from,
    int32_t from_stride,
    char* to,
    int32_t to_stride,
    size_t count,
    int32_t element_size) {
  if (count == 1 || (from_stride == 1 && to_stride == 1)) {
    std::memmove(to, from, count * static_cast<size_t>(element_size));
  } else if (element_size == sizeof(uint32_t)) {
    copy_run<uint32_t>(from, from_stride, to, to_stride, count);
  } else if (element_size == sizeof(uint8_t)) {
    copy_run<uint8_t>(from, from_stride, to, to_stride, count);
  } else if (element_size == sizeof(uint16_t)) {
    copy_run<uint16_t>(from, from_stride, to, to_stride, count);
  } else {
    copy_run<uint64_t>(from, from_stride, to, to_stride, count);
  }
}

void copy_view(const View& from, const View& to, CopyOrder order) {
  // Dims in the order in which the target lies in memory, so that runs are dense there.
  SizesType sizes[kMaxDims];
  int32_t from_strides[kMaxDims];
  int32_t to_strides[kMaxDims];
  for (size_t dim = 0; dim < to.shape.dims; ++dim) {
    const int32_t distance = std::abs(to.strides[dim]);
    size_t place = dim;
    for (; place > 0 && std::abs(to_strides[place - 1]) < distance; --place) {
      sizes[place] = sizes[place - 1];
      from_strides[place] = from_strides[place - 1];
      to_strides[place] = to_strides[place - 1];
    }
    sizes[place] = to.shape.sizes[dim];
    from_strides[place] = from.strides[dim];
    to_strides[place] = to.strides[dim];
  }
  const int32_t* const strides[] = {from_strides, to_strides};
  LoopNest nest;
  nest.init(sizes, strides, 2, to.shape.dims);
  if (nest.size() == 0) {
    return;
  }
  if (order == CopyOrder::LongestFirst && (nest.stride(0) != 1 || nest.stride(1) != 1)) {
    nest.sort_dims();
  }
  const int32_t size = to.element_size;
  const size_t bytes = nest.size() * static_cast<size_t>(size);
  const bool is_short = nest.stride(0) == 1 && nest.stride(1) == 1 && bytes <= kShortBytes;
  const int32_t from_step = nest.row_stride(0) * size;
  const int32_t to_step = nest.row_stride(1) * size;
  do {
    const char* source = from.data + nest.offset(0) * size;
    char* target = to.data + nest.offset(1) * size;
    for (size_t row = nest.rows(); row > 0; --row) {
      if (is_short) {
        copy_short(source, target, bytes);
      } else {
        copy_strided(source, nest.stride(0), target, nest.stride(1), nest.size(), size);
      }
      source += from_step;
      target += to_step;
    }
  } while (nest.next_rows());
}

bool broadcast_view(KernelRuntimeContext& ctx, View& view, ArrayRef<SizesType> sizes) {
  const View from = view;
  KERNEL_CHECK(
      ctx,
      sizes.size() >= from.shape.dims && sizes.size() <= kMaxDims,
      InvalidArgument,
      false,
      "%zu dims cannot become %zu",
      from.shape.dims,
      sizes.size());
  const size_t added = sizes.size() - from.shape.dims;
  view.shape.dims = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const SizesType own = i < added ? 1 : from.shape.sizes[i - added];
    KERNEL_CHECK(
        ctx,
        own == 1 || own == sizes[i],
        InvalidArgument,
        false,
        "A dim of size %d cannot become one of %d",
        static_cast<int>(own),
        static_cast<int>(sizes[i]));
    view.append(sizes[i], own == 1 ? 0 : from.strides[i - added]);
  }
  return true;
}

int32_t step(const View& view, SizesType* position, int32_t offset) {
  for (size_t i = view.shape.dims; i-- > 0;) {
    offset += view.strides[i];
    if (++position[i] < view.shape.sizes[i]) {
      break;
    }
    offset -= position[i] * view.strides[i];
    position[i] = 0;
  }
  return offset;
}

} // namespace native
} // namespace executor
} // namespace torch
