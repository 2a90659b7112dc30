#include "kernels/portable/op_gather.h"

namespace torch::executor::native {

namespace {

/// Returns whether the elements of a view are contiguous. Dims of size 1 don't matter, nor does an
/// empty view.
bool is_in_default_order(const View& view) {
  int32_t stride = 1;
  for (size_t dim = view.shape.dims; dim-- > 0;) {
    if (view.shape.sizes[dim] != 1 && view.strides[dim] != stride) {
      return false;
    }
    stride *= view.shape.sizes[dim];
  }
  return true;
}

} // namespace

bool index_select_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    int32_t& axis,
    Shape& out_sizes) {
  axis = normalize_dim(ctx, dim, static_cast<int32_t>(self.dim()));
  CHECK_ARGUMENT(ctx, index.dim() <= 1, "index has more than one dim");
  if (axis < 0) {
    return false;
  }
  out_sizes = Shape(self.sizes());
  const SizesType count = static_cast<SizesType>(index.numel());
  if (out_sizes.dims > 0) {
    out_sizes.sizes[axis] = count;
  }
  CHECK_ARGUMENT(ctx, out_sizes.dims > 0 || count == 1, "A zero-dim self takes one index");
  return true;
}

void take(
    KernelRuntimeContext& ctx,
    const View& from,
    const View& to,
    size_t dim,
    const Tensor& index) {
  Indices indices;
  if (!indices.init(ctx, index)) {
    return;
  }
  const int32_t count = static_cast<int32_t>(index.numel());
  // If the tensors are in the default order, the parts for an index are evenly spaced.
  const bool is_even = is_in_default_order(from) && is_in_default_order(to);
  int32_t parts = 1;
  auto part = static_cast<size_t>(to.element_size);
  for (size_t other = 0; other < to.shape.dims; ++other) {
    if (other < dim) {
      parts *= to.shape.sizes[other];
    } else if (other > dim) {
      part *= static_cast<size_t>(to.shape.sizes[other]);
    }
  }
  for (int32_t i = 0; i < count; ++i) {
    const int32_t place = indices.get(ctx, i, from.shape.sizes[dim], false);
    if (place < 0) {
      return;
    }
    if (is_even) {
      const char* source = from.data + static_cast<size_t>(place) * part;
      char* target = to.data + static_cast<size_t>(i) * part;
      for (int32_t left = parts; left > 0; --left) {
        copy_bytes(source, target, part);
        source += static_cast<size_t>(from.shape.sizes[dim]) * part;
        target += static_cast<size_t>(count) * part;
      }
      continue;
    }
    View source = from;
    View target = to;
    source.slice(dim, place, 1, 1);
    target.slice(dim, i, 1, 1);
    copy_view(source, target);
  }
}

bool embedding_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& weight,
    const Tensor& indices,
    Shape& out_sizes) {
  out_sizes = Shape(indices.sizes());
  CHECK_ARGUMENT(
      ctx,
      weight.dim() == 2 && out_sizes.dims < kMaxDims,
      "weight does not have 2 dims, or indices too many");
  out_sizes.append(weight.sizes()[1]);
  return true;
}

void embedding(
    KernelRuntimeContext& ctx,
    const Tensor& weight,
    const Tensor& indices,
    Tensor& out) {
  View rows(out);
  rows.shape.dims = 0;
  const SizesType width = weight.sizes()[1];
  rows.append(static_cast<SizesType>(indices.numel()), width);
  rows.append(width, 1);
  take(ctx, View(weight), rows, 0, indices);
}

void gather(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    Tensor& out) {
  IndexWalk walk;
  if (!walk.init(ctx, self, dim, index, &out)) {
    return;
  }
  const int32_t size = static_cast<int32_t>(out.element_size());
  const char* const from = static_cast<const char*>(self.const_data_ptr());
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  walk.run(ctx, [&](int32_t place, int32_t other) {
    copy_strided(from + place * size, 1, to + other * size, 1, 1, size);
  });
}

void scatter(KernelRuntimeContext& ctx, IndexWalk& walk, const void* from, Tensor& out) {
  const int32_t size = static_cast<int32_t>(out.element_size());
  const char* const source = static_cast<const char*>(from);
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  walk.run(ctx, [&](int32_t place, int32_t other) {
    copy_strided(source + other * size, 1, to + place * size, 1, 1, size);
  });
}

int32_t repeated_size(
    KernelRuntimeContext& ctx,
    const Tensor& repeats,
    const std::optional<int64_t>& output_size) {
  Indices counts;
  if (!counts.init(ctx, repeats)) {
    return -1;
  }
  KERNEL_CHECK(ctx, repeats.dim() == 1, InvalidArgument, -1, "repeats does not have one dim");
  int64_t sum = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(repeats.numel()); ++i) {
    KERNEL_CHECK(
        ctx,
        counts[i] >= 0 && counts[i] <= INT32_MAX - sum,
        InvalidArgument,
        -1,
        "repeats has a negative element, or the result is too large");
    sum += counts[i];
  }
  KERNEL_CHECK(
      ctx,
      sum == output_size.value_or(sum),
      InvalidArgument,
      -1,
      "output_size is not the sum %d of repeats",
      static_cast<int>(sum));
  return static_cast<int32_t>(sum);
}

void repeat_interleave(KernelRuntimeContext& ctx, const Tensor& repeats, Tensor& out) {
  Indices counts;
  if (!counts.init(ctx, repeats)) {
    return;
  }
  const bool is_long = out.scalar_type() == ScalarType::Long;
  const int32_t end = static_cast<int32_t>(out.numel());
  int32_t to = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(repeats.numel()); ++i) {
    // It never writes beyond the end, even if out overlaps repeats in a corrupted program.
    for (int64_t n = counts[i]; n > 0 && to < end; --n, ++to) {
      if (is_long) {
        out.mutable_data_ptr<int64_t>()[to] = i;
      } else {
        out.mutable_data_ptr<int32_t>()[to] = i;
      }
    }
  }
}

} // namespace torch::executor::native
