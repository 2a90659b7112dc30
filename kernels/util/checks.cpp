#include "kernels/util/checks.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

namespace torch::executor::native {

bool same_sizes(ArrayRef<SizesType> a, ArrayRef<SizesType> b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

bool is_contiguous(const Tensor& tensor) {
  const auto order = tensor.dim_order();
  const auto sizes = tensor.sizes();
  size_t last = 0;
  for (const size_t dim : order) {
    // A single element has no order: with one channel, for example, channels-last is also
    // contiguous.
    if (sizes[dim] == 1) {
      continue;
    }
    if (dim < last) {
      return false;
    }
    last = dim;
  }
  return true;
}

bool same_dim_order(const Tensor& a, const Tensor& b) {
  const auto a_order = a.dim_order();
  const auto b_order = b.dim_order();
  if (a_order.size() != b_order.size()) {
    return false;
  }
  for (size_t i = 0; i < a_order.size(); ++i) {
    if (a_order[i] != b_order[i]) {
      return false;
    }
  }
  return true;
}

bool same_layout(const Tensor& a, const Tensor& b) {
  const size_t dims = a.dim_order().size();
  if (b.dim_order().size() != dims) {
    return false;
  }
  const SizesType* const a_sizes = a.sizes().data();
  const SizesType* const b_sizes = b.sizes().data();
  const auto* const a_order = a.dim_order().data();
  const auto* const b_order = b.dim_order().data();
  for (size_t i = 0; i < dims; ++i) {
    if (a_sizes[i] != b_sizes[i] || a_order[i] != b_order[i]) {
      return false;
    }
  }
  return true;
}

int32_t normalize_dim(KernelRuntimeContext& ctx, int64_t dim, ssize_t dims) {
  const int32_t range = dims == 0 ? 1 : static_cast<int32_t>(dims);
  KERNEL_CHECK(
      ctx,
      dim >= -range && dim < range,
      InvalidArgument,
      -1,
      "dim %d is outside [%d, %d]",
      static_cast<int>(dim),
      static_cast<int>(-range),
      static_cast<int>(range - 1));
  const int32_t index = static_cast<int32_t>(dim);
  return index < 0 ? index + range : index;
}

bool in_range(
    KernelRuntimeContext& ctx,
    const ArrayRef<int64_t>& values,
    int32_t low,
    int32_t high) {
  for (const int64_t value : values) {
    CHECK_ARGUMENT(
        ctx,
        value >= low && value <= high,
        "A parameter is outside [%d, %d]",
        static_cast<int>(low),
        static_cast<int>(high));
  }
  return true;
}

bool compare_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes) {
  CHECK_ARGUMENT(ctx, same_sizes(out.sizes(), sizes), "out does not have the shape of the result");
  return true;
}

bool resize_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes) {
  CHECK_ARGUMENT(
      ctx,
      executorch::runtime::resize_tensor(out, sizes) == Error::Ok,
      "out cannot take the shape of the result");
  return true;
}

bool same_numel_or_fail(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b) {
  CHECK_ARGUMENT(ctx, a.numel() == b.numel(), "out does not have the shape of the result");
  return true;
}

void unsupported_dtype(KernelRuntimeContext& ctx, ScalarType dtype) {
  ET_LOG(Error, "dtype %d is not supported here, or not linked in", static_cast<int>(dtype));
  static_cast<void>(dtype);
  ctx.fail(Error::NotSupported);
}

bool same_order_or_fail(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b) {
  KERNEL_CHECK(
      ctx,
      same_dim_order(a, b) || (is_contiguous(a) && is_contiguous(b)),
      NotSupported,
      false,
      "The operator takes tensors of one dim order only");
  return true;
}

bool contiguous_or_fail(KernelRuntimeContext& ctx, const Tensor& tensor) {
  KERNEL_CHECK(
      ctx,
      is_contiguous(tensor),
      NotSupported,
      false,
      "The operator takes contiguous tensors only");
  return true;
}

bool dtype_or_fail(
    KernelRuntimeContext& ctx,
    const Tensor& tensor,
    ScalarType dtype,
    [[maybe_unused]] const char* name) {
  KERNEL_CHECK(
      ctx,
      tensor.scalar_type() == dtype,
      InvalidType,
      false,
      "%s has dtype %d, not %d",
      name,
      static_cast<int>(tensor.scalar_type()),
      static_cast<int>(dtype));
  return true;
}

bool same_dtype_or_fail(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b) {
  KERNEL_CHECK(
      ctx,
      a.scalar_type() == b.scalar_type(),
      InvalidType,
      false,
      "dtypes %d and %d of one call differ",
      static_cast<int>(a.scalar_type()),
      static_cast<int>(b.scalar_type()));
  return true;
}

} // namespace torch::executor::native
