#include "kernels/portable/op_index.h"

namespace torch::executor::native {

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

template <bool kMasks>
bool Indexing::init(
    KernelRuntimeContext& ctx,
    const View& self,
    const ArrayRef<std::optional<Tensor>>& indices) {
  self_ = &self;
  const Shape& shape = self.shape;
  // Bit i represents dim i of self.
  uint32_t indexed = 0;
  size_t dim = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].has_value()) {
      ++dim;
      continue;
    }
    const Tensor& index = *indices[i];
    const bool masks = kMasks && is_mask(index);
    if (!masks && !Indices::check(ctx, index)) {
      return false;
    }
    const size_t covered = masks ? static_cast<size_t>(index.dim()) : 1;
    CHECK_ARGUMENT(
        ctx, dim + covered <= shape.dims, "indices has more dims than self, %zu", shape.dims);
    Shape own(index.sizes());
    if constexpr (kMasks) {
      if (masks) {
        KERNEL_CHECK(ctx, covered > 0, NotSupported, false, "A mask in indices has no dims");
        for (size_t k = 0; k < covered; ++k) {
          CHECK_ARGUMENT(
              ctx,
              own.sizes[k] == shape.sizes[dim + k],
              "A mask of size %d indexes a dim of size %d",
              static_cast<int>(own.sizes[k]),
              static_cast<int>(shape.sizes[dim + k]));
        }
        own.dims = 0;
        own.append(count_bytes(index));
        masks_[count_] = {-1, -1};
      }
    }
    // Nothing broadcasts to the first one's own shape.
    if (!broadcast_sizes(ctx, joint_, own, joint_)) {
      return false;
    }
    indices_[count_] = &index;
    dims_[count_] = static_cast<uint8_t>(dim);
    ++count_;
    for (size_t k = 0; k < covered; ++k) {
      indexed |= 1u << dim++;
    }
  }
  CHECK_ARGUMENT(
      ctx, count_ > 0 && dim <= shape.dims, "indices has no tensor, or more dims than self");
  // Dims next to each other are one run of bits.
  const uint32_t lowest = indexed & (0u - indexed);
  joint_dim_ =
      (indexed & (indexed + lowest)) == 0 ? static_cast<size_t>(__builtin_ctz(indexed)) : 0;
  size_t result_dims = joint_.dims;
  for (dim = 0; dim <= shape.dims; ++dim) {
    if (walk_.shape.dims == joint_dim_) {
      for (const SizesType size : ArrayRef<SizesType>(joint_)) {
        walk_.append(size, 0);
      }
    }
    if (dim < shape.dims && ((indexed >> dim) & 1u) == 0) {
      walk_.append(shape.sizes[dim], self.strides[dim]);
      ++result_dims;
    }
  }
  CHECK_ARGUMENT(ctx, result_dims <= kMaxDims, "The result has more than %zu dims", kMaxDims);
  return true;
}

template bool
Indexing::init<true>(KernelRuntimeContext&, const View&, const ArrayRef<std::optional<Tensor>>&);
template bool
Indexing::init<false>(KernelRuntimeContext&, const View&, const ArrayRef<std::optional<Tensor>>&);

void Indexing::begin(const View& result) {
  const size_t dims = walk_.shape.dims;
  const size_t joint_end = joint_dim_ + joint_.dims;
  outer_ = dims;
  run_ = 1;
  from_stride_ = 1;
  to_stride_ = 1;
  if (dims > joint_end) {
    from_stride_ = walk_.strides[dims - 1];
    to_stride_ = result.strides[dims - 1];
  }
  // Dims that both walk evenly are one run.
  while (outer_ > joint_end) {
    const int32_t run = static_cast<int32_t>(run_);
    if (walk_.strides[outer_ - 1] != run * from_stride_ ||
        result.strides[outer_ - 1] != run * to_stride_) {
      break;
    }
    --outer_;
    run_ *= static_cast<size_t>(walk_.shape.sizes[outer_]);
  }
  left_ = run_ > 0 ? 1 : 0;
  for (size_t i = 0; i < outer_; ++i) {
    if (__builtin_mul_overflow(left_, walk_.shape.sizes[i], &left_)) {
      // A corrupted program may have that many small indices; the bounds do not depend on the
      // number.
      left_ = INT32_MAX;
    }
    position_[i] = 0;
  }
  walk_.data = self_->data;
  walk_.element_size = self_->element_size;
}

char* Indexing::next(const View& result, char* to) {
  --left_;
  for (size_t i = outer_; i-- > 0;) {
    // Returns to the start of a dim after its last index.
    const int32_t step = ++position_[i] < walk_.shape.sizes[i] ? 1 : 1 - position_[i];
    walk_.move(step * walk_.strides[i]);
    to += step * result.strides[i] * result.element_size;
    if (step > 0) {
      break;
    }
    position_[i] = 0;
  }
  return to;
}

// The offset in self of a mask's true element.
int32_t Indexing::masked_offset(size_t k) {
  const Tensor& index = *indices_[k];
  const auto sizes = index.sizes();
  Mask& mask = masks_[k];
  const uint8_t* const bytes = static_cast<const uint8_t*>(index.const_data_ptr());
  const int32_t end = static_cast<int32_t>(index.numel());
  // The dim of masks is the last of the joint ones. A mask of one true element is broadcast.
  const int32_t wanted = position_[joint_dim_ + joint_.dims - 1];
  if (wanted < mask.ordinal) {
    mask = {-1, -1};
  }
  for (int32_t place = mask.place + 1; place < end && mask.ordinal < wanted; ++place) {
    if (bytes[place] != 0) {
      mask.place = place;
      ++mask.ordinal;
    }
  }
  // The element exists, unless the result overlaps the mask in a corrupted program.
  int32_t flat = mask.place < 0 ? 0 : mask.place;
  int32_t offset = 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    offset += flat % sizes[i] * self_->strides[dims_[k] + i];
    flat /= sizes[i];
  }
  return offset;
}

template <bool kMasks>
char* Indexing::chosen(KernelRuntimeContext& ctx) {
  int32_t from = 0;
  for (size_t k = 0; k < count_; ++k) {
    const Tensor& index = *indices_[k];
    if constexpr (kMasks) {
      if (is_mask(index)) {
        from += masked_offset(k);
        continue;
      }
    }
    const auto sizes = index.sizes();
    const SizesType* const place = position_ + (joint_dim_ + joint_.dims - sizes.size());
    int32_t offset = 0;
    int32_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      offset += sizes[i] == 1 ? 0 : place[i] * stride;
      stride *= sizes[i];
    }
    const size_t dim = dims_[k];
    const int32_t value = Indices(index).get(ctx, offset, self_->shape.sizes[dim], true);
    if (value < 0) {
      return nullptr;
    }
    from += value * self_->strides[dim];
  }
  return walk_.data + from * self_->element_size;
}

template char* Indexing::chosen<true>(KernelRuntimeContext&);
template char* Indexing::chosen<false>(KernelRuntimeContext&);

template <bool kMasks>
void copy_indexed(
    KernelRuntimeContext& ctx,
    Indexing& indexing,
    const View& result,
    bool is_write) {
  const int32_t size = result.element_size;
  indexing.run<kMasks>(
      ctx,
      result,
      [size, is_write](char* own, int32_t stride, char* other, int32_t other_stride, size_t count) {
        if (is_write) {
          copy_strided(other, other_stride, own, stride, count, size);
        } else {
          copy_strided(own, stride, other, other_stride, count, size);
        }
      });
}

template void copy_indexed<true>(KernelRuntimeContext&, Indexing&, const View&, bool);
template void copy_indexed<false>(KernelRuntimeContext&, Indexing&, const View&, bool);

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
    // More than an int32 can't fit anywhere.
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

} // namespace torch::executor::native
