#include "kernels/portable/op_index.h"

namespace torch {
namespace executor {
namespace native {

namespace {

bool is_mask(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Bool || tensor.scalar_type() == ScalarType::Byte;
}

int32_t count_bytes(const Tensor& mask) {
  const uint8_t* byte = static_cast<const uint8_t*>(mask.const_data_ptr());
  int32_t count = 0;
  for (auto left = mask.numel(); left > 0; --left) {
    count += *byte++ != 0 ? 1 : 0;
  }
  return count;
}

} // namespace

bool Indexing::init(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<std::optional<Tensor>>& indices,
    Shape& result_sizes) {
  const auto sizes = self.sizes();
  size_t dim = 0;
  // Position in the list of the last index, to see whether they are adjacent.
  size_t last = 0;
  bool is_adjacent = true;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].has_value()) {
      ++dim;
      continue;
    }
    const Tensor& index = *indices[i];
    const size_t covered = is_mask(index) ? static_cast<size_t>(index.dim()) : 1;
    KERNEL_CHECK(
        ctx,
        dim + covered <= sizes.size() && count_ < kMaxDims,
        InvalidArgument,
        false,
        "indices has more dims than self, %zu",
        sizes.size());
    if (!contiguous_or_fail(ctx, index)) {
      return false;
    }
    Shape own(index.sizes());
    if (is_mask(index)) {
      KERNEL_CHECK(ctx, covered > 0, NotSupported, false, "A mask in indices has no dims");
      for (size_t k = 0; k < covered; ++k) {
        KERNEL_CHECK(
            ctx,
            index.sizes()[k] == sizes[dim + k],
            InvalidArgument,
            false,
            "A mask of size %d indexes a dim of size %d",
            static_cast<int>(index.sizes()[k]),
            static_cast<int>(sizes[dim + k]));
      }
      own.dims = 0;
      own.append(count_bytes(index));
    } else {
      Indices check;
      if (!check.init(ctx, index)) {
        return false;
      }
    }
    if (count_ == 0) {
      joint_ = own;
      joint_dim_ = dim;
    } else {
      is_adjacent = is_adjacent && i == last + 1;
      if (!broadcast_sizes(ctx, joint_, own, joint_)) {
        return false;
      }
    }
    last = i;
    indices_[count_] = &index;
    masks_[count_] = {-1, -1};
    dims_[count_] = static_cast<uint8_t>(dim);
    ++count_;
    for (size_t k = 0; k < covered; ++k) {
      indexed_ |= 1u << (dim + k);
    }
    dim += covered;
  }
  KERNEL_CHECK(ctx, dim <= sizes.size(), InvalidArgument, false, "indices has more dims than self");
  KERNEL_CHECK(ctx, count_ > 0, InvalidArgument, false, "indices has no tensor");
  joint_dim_ = is_adjacent ? joint_dim_ : 0;
  size_t whole = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    whole += (indexed_ >> i) & 1u ? 0 : 1;
  }
  KERNEL_CHECK(
      ctx,
      whole + joint_.dims <= kMaxDims,
      InvalidArgument,
      false,
      "The result has more than %zu dims",
      kMaxDims);
  size_t next_dim = 0;
  for (size_t i = 0; i <= whole; ++i) {
    if (i == joint_dim_) {
      for (const SizesType size : ArrayRef<SizesType>(joint_)) {
        result_sizes.append(size);
      }
    }
    if (i < whole) {
      while (((indexed_ >> next_dim) & 1u) != 0) {
        ++next_dim;
      }
      result_sizes.append(sizes[next_dim++]);
    }
  }
  return true;
}

void Indexing::start(const View& self, const View& result, LoopNest& rest) {
  Shape whole;
  int32_t strides[2][kMaxDims];
  for (size_t i = 0; i < self.shape.dims; ++i) {
    if (((indexed_ >> i) & 1u) != 0) {
      continue;
    }
    const size_t own = whole.dims;
    strides[0][own] = self.strides[i];
    strides[1][own] = result.strides[own < joint_dim_ ? own : own + joint_.dims];
    whole.append(self.shape.sizes[i]);
  }
  const int32_t* const both[] = {strides[0], strides[1]};
  rest.init(whole.sizes, both, 2, whole.dims);
  position_ = 0;
}

bool Indexing::next(
    KernelRuntimeContext& ctx,
    const View& self,
    const View& result,
    int32_t& from,
    int32_t& to) {
  // The indices of the position in the joint dims.
  SizesType place[kMaxDims];
  int32_t left = position_;
  to = 0;
  for (size_t i = joint_.dims; i-- > 0;) {
    const SizesType size = joint_.sizes[i];
    if (size == 0) {
      return false;
    }
    place[i] = left % size;
    left /= size;
    to += place[i] * result.strides[joint_dim_ + i];
  }
  if (left > 0) {
    return false;
  }
  ++position_;
  from = 0;
  for (size_t k = 0; k < count_; ++k) {
    const Tensor& index = *indices_[k];
    const auto sizes = index.sizes();
    size_t dim = dims_[k];
    if (is_mask(index)) {
      // The dims of masks are the last of the joint ones.
      Mask& mask = masks_[k];
      const uint8_t* const bytes = static_cast<const uint8_t*>(index.const_data_ptr());
      const int32_t end = static_cast<int32_t>(index.numel());
      const int32_t wanted = place[joint_.dims - 1];
      if (wanted < mask.ordinal) {
        mask = {-1, -1};
      }
      // A mask of one true element is broadcast.
      while (mask.ordinal < wanted) {
        int32_t found = mask.place + 1;
        while (found < end && bytes[found] == 0) {
          ++found;
        }
        if (found == end) {
          if (mask.ordinal < 0) {
            return false;
          }
          break;
        }
        mask.place = found;
        ++mask.ordinal;
      }
      int32_t flat = mask.place;
      for (size_t i = sizes.size(); i-- > 0;) {
        from += flat % sizes[i] * self.strides[dim + i];
        flat /= sizes[i];
      }
      continue;
    }
    int32_t offset = 0;
    int32_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      const SizesType at = sizes[i] == 1 ? 0 : place[joint_.dims - sizes.size() + i];
      offset += at * stride;
      stride *= sizes[i];
    }
    Indices values;
    if (!values.init(ctx, index)) {
      return false;
    }
    const int32_t chosen = values.get(ctx, offset, self.shape.sizes[dim], true);
    if (chosen < 0) {
      return false;
    }
    from += chosen * self.strides[dim];
  }
  return true;
}

void index_copy(KernelRuntimeContext& ctx, Indexing& indexing, const Tensor& self, Tensor& out) {
  const View from(self);
  const View to(out);
  const int32_t size = from.element_size;
  indexing.run(
      ctx,
      from,
      to,
      [&](int32_t place, int32_t stride, int32_t other, int32_t other_stride, size_t count) {
        copy_strided(
            from.data + place * size, stride, to.data + other * size, other_stride, count, size);
      });
}

void index_write(KernelRuntimeContext& ctx, Indexing& indexing, const View& values, Tensor& out) {
  const View to(out);
  const int32_t size = to.element_size;
  indexing.run(
      ctx,
      to,
      values,
      [&](int32_t place, int32_t stride, int32_t other, int32_t other_stride, size_t count) {
        copy_strided(
            values.data + other * size, other_stride, to.data + place * size, stride, count, size);
      });
}

bool broadcast_mask(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& mask,
    View& self_view,
    View& mask_view) {
  KERNEL_CHECK(ctx, is_mask(mask), InvalidType, false, "mask is neither Bool nor Byte");
  Shape sizes;
  self_view = View(self);
  mask_view = View(mask);
  return broadcast_sizes(ctx, self.sizes(), mask.sizes(), sizes) &&
      broadcast_view(ctx, self_view, sizes) && broadcast_view(ctx, mask_view, sizes);
}

namespace {

int64_t numel(const Shape& shape) {
  int64_t count = 1;
  for (const SizesType size : ArrayRef<SizesType>(shape)) {
    // What is beyond an int32 is not going to fit anywhere.
    count = size > 0 && count > INT32_MAX / size ? INT32_MAX : count * size;
  }
  return count;
}

} // namespace

int32_t count_true(const View& mask) {
  SizesType position[kMaxDims] = {};
  int32_t offset = 0;
  int32_t count = 0;
  for (int64_t left = numel(mask.shape); left > 0; --left) {
    count += mask.data[offset] != 0 ? 1 : 0;
    offset = step(mask, position, offset);
  }
  return count;
}

void copy_masked(const View& view, const View& mask, char* dense, int32_t count, bool is_scatter) {
  SizesType position[kMaxDims] = {};
  SizesType mask_position[kMaxDims] = {};
  int32_t offset = 0;
  int32_t mask_offset = 0;
  const int32_t size = view.element_size;
  for (int64_t left = numel(mask.shape); left > 0 && count > 0; --left) {
    if (mask.data[mask_offset] != 0) {
      char* const element = view.data + offset * size;
      copy_strided(is_scatter ? dense : element, 1, is_scatter ? element : dense, 1, 1, size);
      dense += size;
      --count;
    }
    offset = step(view, position, offset);
    mask_offset = step(mask, mask_position, mask_offset);
  }
}

} // namespace native
} // namespace executor
} // namespace torch
