#pragma once

#include <optional>

#include "kernels/portable/distance.h"
#include "kernels/soft_double.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

namespace internal {

/// Fails the context (InvalidArgument) and returns false for a p below 0, or NaN.
inline bool check_power(KernelRuntimeContext& ctx, double p) {
  CHECK_ARGUMENT(ctx, float_of(p) >= 0.0f, "p is not 0 or above");
  return true;
}

} // namespace internal

/// aten::_cdist_forward.out: distances between the rows of matrices, batches broadcast.
template <class S>
Tensor& cdist_forward_out(
    KernelRuntimeContext& ctx,
    const Tensor& x1,
    const Tensor& x2,
    double p,
    std::optional<int64_t> /*compute_mode*/,
    Tensor& out) {
  const size_t dims1 = x1.sizes().size();
  const size_t dims2 = x2.sizes().size();
  KERNEL_CHECK(
      ctx,
      dims1 >= 2 && dims2 >= 2 && x1.sizes()[dims1 - 1] == x2.sizes()[dims2 - 1],
      InvalidArgument,
      out,
      "x1 and x2 are no matrices of equally long rows");
  if (!internal::check_power(ctx, p) || !check_contiguous<S>(ctx, x1, x2, out) ||
      !same_dtype_or_fail(ctx, x1, x2) || !same_dtype_or_fail(ctx, x1, out)) {
    return out;
  }
  const ArrayRef<SizesType> batch1(x1.sizes().data(), dims1 - 2);
  const ArrayRef<SizesType> batch2(x2.sizes().data(), dims2 - 2);
  Shape shape;
  if (!broadcast_sizes(ctx, batch1, batch2, shape)) {
    return out;
  }
  const size_t batches = shape.dims;
  const SizesType rows1 = x1.sizes()[dims1 - 2];
  const SizesType rows2 = x2.sizes()[dims2 - 2];
  shape.append(rows1);
  shape.append(rows2);
  if (!shape_out<S>(ctx, out, shape)) {
    return out;
  }
  const size_t width = static_cast<size_t>(x1.sizes()[dims1 - 1]);
  dispatch<FloatTypes, S>(ctx, x1.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.mutable_data_ptr<T>();
    T* const end = to + out.numel();
    // Returns the offset of the matrix of a batch that corresponds to one of out's.
    const auto matrix = [&](ArrayRef<SizesType> batch, size_t index) {
      size_t offset = 0;
      size_t stride = 1;
      for (size_t i = 0; i < batch.size(); ++i) {
        const size_t size = static_cast<size_t>(batch[batch.size() - 1 - i]);
        const size_t whole = static_cast<size_t>(shape.sizes[batches - 1 - i]);
        offset += size == 1 ? 0 : index % whole * stride;
        stride *= size;
        index /= whole;
      }
      return offset;
    };
    for (size_t index = 0; to < end; ++index) {
      const T* a =
          x1.const_data_ptr<T>() + matrix(batch1, index) * static_cast<size_t>(rows1) * width;
      const T* const b0 =
          x2.const_data_ptr<T>() + matrix(batch2, index) * static_cast<size_t>(rows2) * width;
      for (SizesType i = 0; i < rows1; ++i, a += width) {
        const T* b = b0;
        for (SizesType j = 0; j < rows2; ++j, b += width) {
          *to++ = distance(a, b, width, parameter_of<T>(p));
        }
      }
    }
  });
  return out;
}

/// aten::_pdist_forward.out: distances between all pairs of a matrix's rows.
template <class S>
Tensor& pdist_forward_out(KernelRuntimeContext& ctx, const Tensor& self, double p, Tensor& out) {
  KERNEL_CHECK(ctx, self.dim() == 2, InvalidArgument, out, "self is no matrix");
  const size_t rows = static_cast<size_t>(self.size(0));
  const size_t width = static_cast<size_t>(self.size(1));
  const uint64_t pairs = rows < 2 ? 0 : static_cast<uint64_t>(rows) * (rows - 1) / 2;
  KERNEL_CHECK(ctx, pairs <= INT32_MAX, InvalidArgument, out, "self has too many rows");
  const SizesType size = static_cast<SizesType>(pairs);
  if (!internal::check_power(ctx, p) || !check_contiguous<S>(ctx, self, out) ||
      !same_dtype_or_fail(ctx, self, out) ||
      !shape_out<S>(ctx, out, ArrayRef<SizesType>(&size, 1))) {
    return out;
  }
  dispatch<FloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.mutable_data_ptr<T>();
    const T* const in = self.const_data_ptr<T>();
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = i + 1; j < rows; ++j) {
        *to++ = distance(in + i * width, in + j * width, width, parameter_of<T>(p));
      }
    }
  });
  return out;
}

} // namespace torch::executor::native
