#include "kernels/portable/op_strided.h"

#include <algorithm>

namespace torch::executor::native {

bool as_strided(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& size,
    const ArrayRef<int64_t>& stride,
    int64_t storage_offset,
    View& view) {
  if (!contiguous_or_fail(ctx, self)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      size.size() == stride.size() && size.size() <= kMaxDims,
      "size has %zu elements, stride %zu",
      size.size(),
      stride.size());
  view.shape.dims = 0;
  const int64_t end = self.numel();
  // The index of the last element; beyond `end` if it may exceed 64 bits.
  int64_t last = storage_offset < 0 || storage_offset > end ? end : storage_offset;
  bool is_valid = storage_offset >= 0;
  bool is_empty = false;
  for (size_t i = 0; i < size.size(); ++i) {
    is_valid = is_valid && size[i] >= 0 && size[i] <= INT32_MAX && stride[i] >= 0 &&
        (stride[i] < end || size[i] <= 1);
    if (is_valid && size[i] > 1) {
      const int64_t reach = last + (size[i] - 1) * stride[i];
      last = reach < end ? reach : end;
    }
    is_empty = is_empty || size[i] == 0;
    view.append(static_cast<SizesType>(size[i]), size[i] > 1 ? static_cast<int32_t>(stride[i]) : 0);
  }
  CHECK_ARGUMENT(
      ctx,
      is_valid && (is_empty || last < end),
      "size, stride and storage_offset reach beyond self's %d elements",
      static_cast<int>(end));
  if (is_empty) {
    return true;
  }
  view.move(static_cast<int32_t>(storage_offset));
  return true;
}

bool diagonal(KernelRuntimeContext& ctx, View& view, int64_t offset, int64_t dim1, int64_t dim2) {
  const int32_t dims = static_cast<int32_t>(view.shape.dims);
  const int32_t first = normalize_dim(ctx, dim1, dims);
  const int32_t second = normalize_dim(ctx, dim2, dims);
  if (first < 0 || second < 0) {
    return false;
  }
  CHECK_ARGUMENT(ctx, first != second && dims > 1, "dim1 and dim2 are the same dim");
  const size_t row = static_cast<size_t>(first);
  const size_t column = static_cast<size_t>(second);
  const int32_t rows = view.shape.sizes[row];
  const int32_t columns = view.shape.sizes[column];
  const int32_t row_start = offset >= 0 ? 0 : offset < -rows ? rows : static_cast<int32_t>(-offset);
  const int32_t column_start = offset <= 0 ? 0
      : offset > columns                   ? columns
                                           : static_cast<int32_t>(offset);
  const int32_t down = rows - row_start;
  const int32_t across = columns - column_start;
  const int32_t count = down < across ? down : across;
  const int32_t stride = view.strides[row] + view.strides[column];
  if (count > 0) {
    view.move(row_start * view.strides[row] + column_start * view.strides[column]);
  }
  const size_t high = row > column ? row : column;
  view.select(high, 0);
  view.select(row > column ? column : row, 0);
  view.append(count, stride);
  return true;
}

bool flip(KernelRuntimeContext& ctx, View& view, const ArrayRef<int64_t>& dims) {
  uint32_t flipped = 0;
  for (const int64_t dim : dims) {
    const int32_t index = normalize_dim(ctx, dim, static_cast<int32_t>(view.shape.dims));
    if (index < 0) {
      return false;
    }
    CHECK_ARGUMENT(
        ctx, ((flipped >> index) & 1u) == 0, "dims has %d twice", static_cast<int>(index));
    flipped |= 1u << index;
    // A zero-dim tensor has a dim 0 to name, and nothing to flip.
    if (static_cast<size_t>(index) < view.shape.dims) {
      view.flip(static_cast<size_t>(index));
    }
  }
  return true;
}

bool unfold(KernelRuntimeContext& ctx, View& view, int64_t dim, int64_t size, int64_t step) {
  const int32_t index = normalize_dim(ctx, dim, static_cast<int32_t>(view.shape.dims));
  if (index < 0) {
    return false;
  }
  CHECK_ARGUMENT(ctx, view.shape.dims < kMaxDims, "The result has too many dims");
  if (view.shape.dims == 0) {
    view.append(1, 0);
    CHECK_ARGUMENT(
        ctx,
        (size == 0 || size == 1) && step > 0,
        "size does not fit a zero-dim self, or step is not positive");
    view.shape.sizes[0] = static_cast<SizesType>(size);
    return true;
  }
  const size_t axis = static_cast<size_t>(index);
  const int32_t length = view.shape.sizes[axis];
  CHECK_ARGUMENT(
      ctx,
      size >= 0 && size <= length && step > 0,
      "size %d does not fit a dim of size %d, or step is not positive",
      static_cast<int>(size),
      static_cast<int>(length));
  const int32_t window = static_cast<int32_t>(size);
  const int32_t distance = step > length ? length + 1 : static_cast<int32_t>(step);
  const int32_t stride = view.strides[axis];
  view.slice(axis, 0, distance, (length - window) / distance + 1);
  view.append(window, stride);
  return true;
}

/// Its square fits into 31 bits.
constexpr int64_t kLargestFactor = 46340;

bool shuffle_pixels(KernelRuntimeContext& ctx, View& view, int64_t factor, bool is_shuffled) {
  // Three dims become five.
  CHECK_ARGUMENT(
      ctx,
      view.shape.dims >= 3 && view.shape.dims + 2 <= kMaxDims,
      "self does not have 3 to %zu dims",
      kMaxDims - 2);
  const size_t channels = view.shape.dims - 3;
  const SizesType* const last = view.shape.sizes + channels;
  // The results' sizes fit into 32 bits by themselves only if there are elements.
  bool fits = factor > 0 && factor <= kLargestFactor;
  if (fits && is_shuffled) {
    fits = last[1] % factor == 0 && last[2] % factor == 0 && last[0] * factor * factor <= INT32_MAX;
  } else if (fits) {
    fits = last[0] % factor == 0 && last[0] / factor % factor == 0 &&
        std::max(last[1], last[2]) * factor <= INT32_MAX;
  }
  CHECK_ARGUMENT(ctx, fits, "The factor %d does not divide the dims", static_cast<int>(factor));
  const SizesType inner = static_cast<SizesType>(factor);
  if (is_shuffled) {
    view.split(channels + 2, inner);
    view.split(channels + 1, inner);
  } else {
    // [channels, factor, factor, height, width]
    view.split(channels, inner);
    view.split(channels, inner);
    view.move_dim(channels + 3, channels + 1);
    view.move_dim(channels + 4, channels + 3);
  }
  return true;
}

Shape shuffled_sizes(const View& view, bool is_shuffled) {
  Shape sizes = view.shape;
  sizes.dims -= 2;
  SizesType* const last = sizes.sizes + sizes.dims - 3;
  const SizesType factor = last[2];
  const SizesType width = last[3];
  if (is_shuffled) {
    last[0] *= factor * factor;
    last[2] = width;
  } else {
    last[1] *= factor;
    last[2] = width * factor;
  }
  return sizes;
}

bool repeat_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& repeats,
    Shape& out_sizes) {
  const auto sizes = self.sizes();
  CHECK_ARGUMENT(
      ctx,
      repeats.size() >= sizes.size() && repeats.size() <= kMaxDims,
      "repeats has %zu elements, self %zu dims",
      repeats.size(),
      sizes.size());
  const size_t added = repeats.size() - sizes.size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t size = i < added ? 1 : sizes[i - added];
    CHECK_ARGUMENT(
        ctx,
        repeats[i] >= 0 && repeats[i] <= INT32_MAX && repeats[i] * size <= INT32_MAX,
        "repeats has a negative element, or one too large");
    out_sizes.append(static_cast<SizesType>(repeats[i] * size));
  }
  return true;
}

void repeat(const Tensor& self, Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  // The first copy, then, from the last dim on, the copies along each dim.
  const View whole(out);
  const size_t added = whole.shape.dims - static_cast<size_t>(self.dim());
  View first = whole;
  for (size_t i = 0; i < whole.shape.dims; ++i) {
    first.slice(i, 0, 1, i < added ? 1 : self.sizes()[i - added]);
  }
  View from(self);
  for (size_t i = 0; i < added; ++i) {
    from.append(1, 0);
    from.move_dim(from.shape.dims - 1, 0);
  }
  copy_view(from, first);
  for (size_t i = whole.shape.dims; i-- > 0;) {
    const int32_t size = first.shape.sizes[i];
    for (int32_t start = size; start < whole.shape.sizes[i]; start += size) {
      View next = first;
      next.move(start * whole.strides[i]);
      copy_view(first, next);
    }
    first.shape.sizes[i] = whole.shape.sizes[i];
    first.strides[i] = whole.strides[i];
  }
}

void roll(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& shifts,
    const ArrayRef<int64_t>& dims,
    Tensor& out) {
  View from(self);
  View to(out);
  if (dims.size() == 0) {
    KERNEL_CHECK(
        ctx,
        shifts.size() == 1,
        InvalidArgument,
        ,
        "shifts has not one element, and dims has none");
    if (!contiguous_or_fail(ctx, self) || !contiguous_or_fail(ctx, out)) {
      return;
    }
    from.shape.dims = 0;
    from.append(static_cast<SizesType>(self.numel()), 1);
    to.shape = from.shape;
    to.strides[0] = 1;
  } else {
    KERNEL_CHECK(
        ctx,
        shifts.size() == dims.size(),
        InvalidArgument,
        ,
        "shifts has %zu elements, dims %zu",
        shifts.size(),
        dims.size());
  }
  if (out.numel() == 0) {
    return;
  }
  int32_t moved[kMaxDims] = {};
  size_t rolled[kMaxDims];
  size_t count = 0;
  for (size_t i = 0; i < shifts.size(); ++i) {
    const int32_t index =
        dims.size() == 0 ? 0 : normalize_dim(ctx, dims[i], static_cast<int32_t>(from.shape.dims));
    if (index < 0) {
      return;
    }
    if (from.shape.dims == 0) {
      continue;
    }
    const int32_t size = from.shape.sizes[index];
    const int32_t shift = static_cast<int32_t>(shifts[i] % size);
    const int64_t sum = static_cast<int64_t>(moved[index]) + shift + size;
    moved[index] = static_cast<int32_t>(sum % size);
  }
  for (size_t i = 0; i < from.shape.dims; ++i) {
    if (moved[i] != 0) {
      rolled[count++] = i;
    }
  }
  // The elements that stay before the end of each dim, and those that wrap to its start.
  for (uint32_t wraps = 0; wraps < 1u << count; ++wraps) {
    View part_from = from;
    View part_to = to;
    for (size_t i = 0; i < count; ++i) {
      const size_t dim = rolled[i];
      const int32_t shift = moved[dim];
      const int32_t stays = from.shape.sizes[dim] - shift;
      const bool is_wrapped = ((wraps >> i) & 1u) != 0;
      part_from.slice(dim, is_wrapped ? stays : 0, 1, is_wrapped ? shift : stays);
      part_to.slice(dim, is_wrapped ? 0 : shift, 1, is_wrapped ? shift : stays);
    }
    copy_view(part_from, part_to);
  }
}

} // namespace torch::executor::native
