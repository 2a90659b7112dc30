#include "kernels/util/loop_nest.h"

#include <utility>

namespace torch::executor::native {

void strides_of(const Tensor& tensor, int32_t* strides) {
  const auto sizes = tensor.sizes();
  const auto order = tensor.dim_order();
  int32_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    const size_t dim = order[i];
    strides[dim] = stride;
    stride *= sizes[dim] == 0 ? 1 : sizes[dim];
  }
}

void LoopNest::clear(size_t inputs) {
  dims_ = 0;
  inputs_ = inputs;
  out_offset_ = 0;
  sizes_[0] = 1;
  positions_[0] = 0;
  for (size_t i = 0; i < inputs; ++i) {
    offsets_[i] = 0;
    strides_[i][0] = 0;
  }
}

void LoopNest::append(SizesType size, const int32_t* strides) {
  if (size == 1) {
    return;
  }
  bool even = dims_ > 0;
  for (size_t i = 0; even && i < inputs_; ++i) {
    even = strides[i] == strides_[i][dims_ - 1] * sizes_[dims_ - 1];
  }
  if (even) {
    sizes_[dims_ - 1] *= size;
    return;
  }
  sizes_[dims_] = size;
  positions_[dims_] = 0;
  for (size_t i = 0; i < inputs_; ++i) {
    strides_[i][dims_] = strides[i];
  }
  ++dims_;
}

bool LoopNest::init(
    KernelRuntimeContext& ctx,
    const Tensor& out,
    const Tensor* const* inputs,
    size_t count) {
  clear(count);
  const auto sizes = out.sizes();
  const auto order = out.dim_order();
  int32_t strides[kMaxInputs][kMaxDims];
  for (size_t i = 0; i < count; ++i) {
    CHECK_ARGUMENT(
        ctx,
        inputs[i]->sizes().size() <= sizes.size(),
        "Input %zu has more dims than the output",
        i);
    strides_of(*inputs[i], strides[i]);
  }
  if (out.numel() == 0) {
    sizes_[0] = 0;
    return true;
  }
  for (size_t k = sizes.size(); k-- > 0;) {
    const size_t dim = order[k];
    int32_t dim_strides[kMaxInputs];
    for (size_t i = 0; i < count; ++i) {
      const auto input_sizes = inputs[i]->sizes();
      const size_t missing = sizes.size() - input_sizes.size();
      dim_strides[i] = 0;
      if (dim >= missing && input_sizes[dim - missing] != 1) {
        CHECK_ARGUMENT(
            ctx,
            input_sizes[dim - missing] == sizes[dim],
            "Input %zu does not broadcast to the output",
            i);
        dim_strides[i] = strides[i][dim - missing];
      }
    }
    append(sizes[dim], dim_strides);
  }
  return true;
}

void LoopNest::init(
    const SizesType* sizes,
    const int32_t* const* strides,
    size_t count,
    size_t dims) {
  clear(count);
  for (size_t k = dims; k-- > 0;) {
    if (sizes[k] == 0) {
      sizes_[0] = 0;
      dims_ = 0;
      return;
    }
    int32_t dim_strides[kMaxInputs];
    for (size_t i = 0; i < count; ++i) {
      dim_strides[i] = strides[i][k];
    }
    append(sizes[k], dim_strides);
  }
}

void LoopNest::sort_dims() {
  for (size_t end = 1; end < dims_; ++end) {
    for (size_t dim = end; dim > 0 && sizes_[dim - 1] < sizes_[dim]; --dim) {
      std::swap(sizes_[dim - 1], sizes_[dim]);
      for (size_t i = 0; i < inputs_; ++i) {
        std::swap(strides_[i][dim - 1], strides_[i][dim]);
      }
    }
  }
}

bool LoopNest::next() {
  out_offset_ += size();
  return advance(1);
}

bool LoopNest::next_rows() {
  out_offset_ += size() * rows();
  return advance(2);
}

bool LoopNest::advance(size_t first_dim) {
  for (size_t dim = first_dim; dim < dims_; ++dim) {
    ++positions_[dim];
    if (positions_[dim] < sizes_[dim]) {
      for (size_t i = 0; i < inputs_; ++i) {
        offsets_[i] += strides_[i][dim];
      }
      return true;
    }
    positions_[dim] = 0;
    for (size_t i = 0; i < inputs_; ++i) {
      offsets_[i] -= strides_[i][dim] * (sizes_[dim] - 1);
    }
  }
  return false;
}

bool broadcast_sizes(
    KernelRuntimeContext& ctx,
    ArrayRef<SizesType> a,
    ArrayRef<SizesType> b,
    Shape& result) {
  // Sizes are read before those that they give are written, from the last on.
  result.dims = a.size() > b.size() ? a.size() : b.size();
  CHECK_ARGUMENT(ctx, result.dims <= kMaxDims, "More than %zu dims", kMaxDims);
  for (size_t i = 0; i < result.dims; ++i) {
    // It goes from the last dim on; missing sizes count as 1.
    const SizesType x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const SizesType y = i < b.size() ? b[b.size() - 1 - i] : 1;
    CHECK_ARGUMENT(
        ctx,
        x == y || x == 1 || y == 1,
        "Shapes do not broadcast: sizes %d and %d meet",
        static_cast<int>(x),
        static_cast<int>(y));
    result.sizes[result.dims - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

} // namespace torch::executor::native
