#include "kernels/util/indices.h"

namespace torch::executor::native {

bool Indices::check(KernelRuntimeContext& ctx, const Tensor& tensor) {
  const ScalarType dtype = tensor.scalar_type();
  KERNEL_CHECK(
      ctx,
      dtype == ScalarType::Long || dtype == ScalarType::Int,
      InvalidType,
      false,
      "Indices of dtype %d are neither Long nor Int",
      static_cast<int>(dtype));
  return true;
}

bool Indices::init(KernelRuntimeContext& ctx, const Tensor& tensor) {
  if (!check(ctx, tensor)) {
    return false;
  }
  *this = Indices(tensor);
  return true;
}

int32_t Indices::get(KernelRuntimeContext& ctx, int32_t offset, int32_t size, bool wraps) const {
  const int64_t index = (*this)[offset];
  KERNEL_CHECK(
      ctx,
      index < size && index >= (wraps ? -size : 0),
      InvalidArgument,
      -1,
      "Index %d is out of range for a dim of size %d",
      static_cast<int>(index),
      static_cast<int>(size));
  return static_cast<int32_t>(index < 0 ? index + size : index);
}

bool IndexWalk::init(
    KernelRuntimeContext& ctx,
    const Tensor& indexed,
    int64_t dim,
    const Tensor& index,
    const Tensor* other) {
  const int32_t axis = normalize_dim(ctx, dim, indexed.dim());
  if (axis < 0 || !indices_.init(ctx, index)) {
    return false;
  }
  const size_t along = static_cast<size_t>(axis);
  // A zero-dim tensor counts as one of one element.
  Shape sizes(index.sizes());
  Shape indexed_sizes(indexed.sizes());
  int32_t strides[3][kMaxDims] = {};
  strides_of(indexed, strides[0]);
  strides_of(index, strides[2]);
  Shape other_sizes = sizes;
  if (other != nullptr) {
    other_sizes = Shape(other->sizes());
    strides_of(*other, strides[1]);
  }
  for (Shape* shape : {&sizes, &indexed_sizes, &other_sizes}) {
    if (shape->dims == 0) {
      shape->append(1);
    }
  }
  bool fits = true;
  if (index.numel() > 0) {
    fits = sizes.dims == indexed_sizes.dims && sizes.dims == other_sizes.dims;
    for (size_t i = 0; fits && i < sizes.dims; ++i) {
      fits = (i == along || sizes.sizes[i] <= indexed_sizes.sizes[i]) &&
          sizes.sizes[i] <= other_sizes.sizes[i];
    }
  }
  CHECK_ARGUMENT(ctx, fits, "index has another number of dims, or is larger");
  size_ = indexed_sizes.sizes[along];
  stride_ = strides[0][along];
  strides[0][along] = 0;
  const int32_t* const all[] = {strides[0], strides[1], strides[2]};
  nest_.init(sizes.sizes, all, 3, sizes.dims);
  return true;
}

} // namespace torch::executor::native
