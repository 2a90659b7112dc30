#include "kernels/util/view.h"

#include <cstdlib>
#include <cstring>

#include "kernels/util/aligned.h"
#include "kernels/util/loop_nest.h"

namespace torch::executor::native {

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
  // The stride of a single index doesn't matter, and the step beyond the end may overflow.
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
  // The product may be too large beside a dim without elements.
  strides[dim] *= shape.sizes[dim] > 0 ? inner : 0;
}

void View::append(SizesType size, int32_t stride) {
  if (shape.dims < kMaxDims) {
    strides[shape.dims] = stride;
    shape.append(size);
  }
}

namespace {

/// Bytes that are copied at once where their target is dense.
constexpr size_t kBytesAtOnce = sizeof(uint32_t);

/// The distances of elements in a row, and those of rows, in bytes.
struct Steps {
  int32_t stride;
  int32_t row;
};

/// Copies one element at least.
template <class T>
inline void
copy_run(const char* from, int32_t from_stride, char* to, int32_t to_stride, size_t count) {
  if (sizeof(T) == 1 && to_stride == 1) {
    for (; count > kBytesAtOnce; count -= kBytesAtOnce) {
      uint32_t word = 0;
      for (size_t shift = 0; shift < 32; shift += 8, from += from_stride) {
        word |= uint32_t{static_cast<uint8_t>(*from)} << shift;
      }
      std::memcpy(to, &word, sizeof(word));
      to += sizeof(word);
    }
  }
  do {
    *aligned_cast<T>(to) = *aligned_cast<const T>(from);
    from += from_stride;
    to += to_stride;
  } while (--count > 0);
}

/// Copies rows of `count` bytes, kBytesAtOnce rows at a time, where bytes of neighbouring rows are
/// side by side, as in a transposition; returns how many rows it copied.
size_t
transpose_rows(const char* from, int32_t stride, char* to, int32_t row, size_t count, size_t rows) {
  for (size_t fours = rows / kBytesAtOnce; fours > 0; --fours) {
    const char* column = from;
    char* place = to;
    for (size_t i = count; i > 0; --i, column += stride, ++place) {
      uint32_t word;
      std::memcpy(&word, column, sizeof(word));
      place[0] = static_cast<char>(word);
      place[row] = static_cast<char>(word >> 8);
      place[2 * row] = static_cast<char>(word >> 16);
      place[3 * row] = static_cast<char>(word >> 24);
    }
    from += kBytesAtOnce;
    to += static_cast<int32_t>(kBytesAtOnce) * row;
  }
  return rows & ~(kBytesAtOnce - 1);
}

/// Copies rows of `count` elements each; neither is 0.
void copy_rows(
    const char* from,
    Steps source,
    char* to,
    Steps target,
    size_t count,
    size_t rows,
    int32_t element_size) {
  if (kHasWordsAnywhere && element_size == 1 && source.row == 1 && target.stride == 1) {
    const size_t done = transpose_rows(from, source.stride, to, target.row, count, rows);
    from += done;
    to += static_cast<int32_t>(done) * target.row;
    rows -= done;
  }
  for (; rows > 0; --rows) {
    if (element_size == sizeof(uint32_t)) {
      copy_run<uint32_t>(from, source.stride, to, target.stride, count);
    } else if (element_size == sizeof(uint8_t)) {
      copy_run<uint8_t>(from, source.stride, to, target.stride, count);
    } else if (element_size == sizeof(uint16_t)) {
      copy_run<uint16_t>(from, source.stride, to, target.stride, count);
    } else {
      copy_run<uint64_t>(from, source.stride, to, target.stride, count);
    }
    from += source.row;
    to += target.row;
  }
}

/// Rows up to this long, as those of an image's pixels, are copied without a call.
constexpr size_t kShortBytes = 64;

ET_INLINE void copy_short(const char* from, char* to, size_t bytes) {
  const char* const end = from + bytes;
  const char* const words_end = end - bytes % sizeof(uint32_t);
  while (from != words_end) {
    uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    std::memcpy(to, &word, sizeof(word));
    from += sizeof(word);
    to += sizeof(word);
  }
  while (from != end) {
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

void copy_dense_rows(
    const char* from,
    int32_t from_row,
    char* to,
    int32_t to_row,
    size_t bytes,
    size_t rows) {
  if (bytes > kShortBytes) {
    for (; rows > 0; --rows, from += from_row, to += to_row) {
      std::memmove(to, from, bytes);
    }
    return;
  }
  if (bytes == sizeof(uint32_t)) {
    // Pixels of four channels are words.
    for (; rows > 0; --rows, from += from_row, to += to_row) {
      uint32_t word;
      std::memcpy(&word, from, sizeof(word));
      std::memcpy(to, &word, sizeof(word));
    }
    return;
  }
  const size_t words = bytes / sizeof(uint32_t);
  for (; rows > 0; --rows, from += from_row, to += to_row) {
    const char* source = from;
    char* target = to;
    for (size_t i = words; i > 0; --i) {
      uint32_t word;
      std::memcpy(&word, source, sizeof(word));
      std::memcpy(target, &word, sizeof(word));
      source += sizeof(word);
      target += sizeof(word);
    }
    for (size_t i = bytes % sizeof(uint32_t); i > 0; --i) {
      *target++ = *source++;
    }
  }
}

void copy_strided(
    const char* from,
    int32_t from_stride,
    char* to,
    int32_t to_stride,
    size_t count,
    int32_t element_size) {
  if (count <= 1 || (from_stride == 1 && to_stride == 1)) {
    std::memmove(to, from, count * static_cast<size_t>(element_size));
  } else {
    const Steps source = {from_stride * element_size, 0};
    copy_rows(from, source, to, {to_stride * element_size, 0}, count, 1, element_size);
  }
}

void copy_view(const View& from, const View& to, CopyOrder order) {
  // The dims in the target's memory order, so that its runs are dense.
  SizesType sizes[kMaxDims];
  int32_t from_strides[kMaxDims];
  int32_t to_strides[kMaxDims];
  size_t dims = 0;
  for (size_t dim = 0; dim < to.shape.dims; ++dim) {
    // The strides of a single index don't matter.
    if (to.shape.sizes[dim] == 1) {
      continue;
    }
    const int32_t distance = std::abs(to.strides[dim]);
    size_t place = dims++;
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
  nest.init(sizes, strides, 2, dims);
  if (nest.size() == 0) {
    return;
  }
  const int32_t size = to.element_size;
  const bool is_dense = nest.stride(0) == 1 && nest.stride(1) == 1;
  const bool is_dense_target = size == 1 && nest.stride(1) == 1 && nest.size() >= kBytesAtOnce;
  if (order == CopyOrder::LongestFirst && !is_dense && !is_dense_target) {
    nest.sort_dims();
  }
  const Steps source = {nest.stride(0) * size, nest.row_stride(0) * size};
  const Steps target = {nest.stride(1) * size, nest.row_stride(1) * size};
  const size_t bytes = nest.size() * static_cast<size_t>(size);
  do {
    const char* first = from.data + nest.offset(0) * size;
    char* out = to.data + nest.offset(1) * size;
    if (is_dense) {
      copy_dense_rows(first, source.row, out, target.row, bytes, nest.rows());
    } else {
      copy_rows(first, source, out, target, nest.size(), nest.rows(), size);
    }
  } while (nest.next_rows());
}

bool broadcast_view(KernelRuntimeContext& ctx, View& view, ArrayRef<SizesType> sizes) {
  const View from = view;
  CHECK_ARGUMENT(
      ctx,
      sizes.size() >= from.shape.dims && sizes.size() <= kMaxDims,
      "%zu dims cannot become %zu",
      from.shape.dims,
      sizes.size());
  const size_t added = sizes.size() - from.shape.dims;
  view.shape.dims = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const SizesType own = i < added ? 1 : from.shape.sizes[i - added];
    CHECK_ARGUMENT(
        ctx,
        own == 1 || own == sizes[i],
        "A dim of size %d cannot become one of %d",
        static_cast<int>(own),
        static_cast<int>(sizes[i]));
    view.append(sizes[i], own == 1 ? 0 : from.strides[i - added]);
  }
  return true;
}

bool permute(
    KernelRuntimeContext& ctx,
    const View& from,
    const ArrayRef<int64_t>& dims,
    View& view) {
  CHECK_ARGUMENT(
      ctx,
      dims.size() == from.shape.dims,
      "dims has %zu elements, self %zu dims",
      dims.size(),
      from.shape.dims);
  view.data = from.data;
  view.element_size = from.element_size;
  view.shape.dims = 0;
  uint32_t seen = 0;
  for (const int64_t given : dims) {
    const int32_t dim = normalize_dim(ctx, given, static_cast<int32_t>(dims.size()));
    if (dim < 0) {
      return false;
    }
    CHECK_ARGUMENT(ctx, ((seen >> dim) & 1u) == 0, "dims has %d twice", static_cast<int>(dim));
    seen |= 1u << dim;
    view.append(from.shape.sizes[dim], from.strides[dim]);
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

} // namespace torch::executor::native
