#include "kernels/portable/op_pad.h"

namespace torch::executor::native {

namespace {

/// The padding before or after a dim.
int32_t padding_of(const ArrayRef<int64_t>& padding, size_t dims, size_t dim, bool is_after) {
  const size_t pair = (dims - 1 - dim) * 2;
  return pair + 1 < padding.size() ? static_cast<int32_t>(padding[pair + (is_after ? 1 : 0)]) : 0;
}

} // namespace

bool pad_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& padding,
    Shape& out_sizes) {
  const auto sizes = self.sizes();
  CHECK_ARGUMENT(
      ctx,
      padding.size() % 2 == 0 && padding.size() <= 2 * sizes.size(),
      "The padding has %zu elements, self %zu dims",
      padding.size(),
      sizes.size());
  // The sum of two then has 32 bits.
  constexpr int32_t kMost = INT32_MAX / 2;
  if (!in_range(ctx, padding, -kMost, kMost)) {
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int32_t before = padding_of(padding, sizes.size(), i, false);
    const int32_t after = padding_of(padding, sizes.size(), i, true);
    SizesType size;
    CHECK_ARGUMENT(
        ctx,
        !__builtin_add_overflow(sizes[i], before + after, &size) && size >= 0 &&
            -before <= sizes[i] && -after <= sizes[i],
        "Padding of %d and %d does not fit a dim of size %d",
        static_cast<int>(before),
        static_cast<int>(after),
        static_cast<int>(sizes[i]));
    out_sizes.append(size);
  }
  return true;
}

void cut_to_common(const ArrayRef<int64_t>& padding, View& from, View& to) {
  for (size_t i = 0; i < from.shape.dims; ++i) {
    const int32_t before = padding_of(padding, from.shape.dims, i, false);
    const int32_t after = padding_of(padding, from.shape.dims, i, true);
    const int32_t start = before < 0 ? -before : 0;
    const int32_t count = from.shape.sizes[i] - start + (after < 0 ? after : 0);
    from.slice(i, start, 1, count > 0 ? count : 0);
    to.slice(i, before > 0 ? before : 0, 1, count > 0 ? count : 0);
  }
}

bool mirror_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& padding,
    size_t count,
    bool reflects,
    Shape& out_sizes) {
  const auto sizes = self.sizes();
  CHECK_ARGUMENT(
      ctx,
      padding.size() == 2 * count && (sizes.size() == count + 1 || sizes.size() == count + 2),
      "The padding has %zu elements, self %zu dims",
      padding.size(),
      sizes.size());
  if (!pad_sizes(ctx, self, padding, out_sizes)) {
    return false;
  }
  for (size_t i = sizes.size() - count; i < sizes.size(); ++i) {
    const int32_t before = padding_of(padding, sizes.size(), i, false);
    const int32_t after = padding_of(padding, sizes.size(), i, true);
    const int32_t largest = before > after ? before : after;
    CHECK_ARGUMENT(
        ctx,
        sizes[i] > 0 && out_sizes.sizes[i] > 0 && (!reflects || largest < sizes[i]),
        "A dim of size %d is too small for padding of %d and %d",
        static_cast<int>(sizes[i]),
        static_cast<int>(before),
        static_cast<int>(after));
  }
  return true;
}

void mirror(const Tensor& self, const ArrayRef<int64_t>& padding, bool reflects, Tensor& out) {
  const View from(self);
  const View to(out);
  const size_t dims = to.shape.dims;
  const auto offset_in = [&](size_t dim, int32_t index) {
    const int32_t last = from.shape.sizes[dim] - 1;
    int32_t source = index - padding_of(padding, dims, dim, false);
    if (source < 0) {
      source = reflects ? -source : 0;
    } else if (source > last) {
      source = reflects ? 2 * last - source : last;
    }
    return source * from.strides[dim];
  };
  // Row by row: the elements between the edges are contiguous in both.
  const size_t inner = dims - 1;
  const int32_t width = to.shape.sizes[inner];
  const int32_t before = padding_of(padding, dims, inner, false);
  const int32_t start = before > 0 ? before : 0;
  const int32_t source_end = before + from.shape.sizes[inner];
  const int32_t end = source_end < width ? source_end : width;
  View rows = to;
  rows.select(inner, 0);
  SizesType position[kMaxDims] = {};
  int32_t to_offset = 0;
  for (int64_t left = out.numel() / (width > 0 ? width : 1); left > 0; --left) {
    int32_t from_offset = 0;
    for (size_t i = 0; i < inner; ++i) {
      from_offset += offset_in(i, position[i]);
    }
    const auto copy = [&](int32_t index, int32_t count) {
      copy_strided(
          from.data + (from_offset + offset_in(inner, index)) * from.element_size,
          from.strides[inner],
          to.data + (to_offset + index * to.strides[inner]) * to.element_size,
          to.strides[inner],
          static_cast<size_t>(count),
          to.element_size);
    };
    for (int32_t i = 0; i < start; ++i) {
      copy(i, 1);
    }
    if (start < end) {
      copy(start, end - start);
    }
    for (int32_t i = end; i < width; ++i) {
      copy(i, 1);
    }
    to_offset = step(rows, position, to_offset);
  }
}

} // namespace torch::executor::native
