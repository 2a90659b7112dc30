#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/pool.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/**
 * Checks the arguments that 2-d poolings share and sets the windows and the
 * output's shape. Padding is at most half the kernel, so that every window
 * meets the input.
 *
 * @returns false after failing the context.
 */
bool check_pool(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& kernel_size,
    const ArrayRef<int64_t>& stride,
    const ArrayRef<int64_t>& padding,
    const ArrayRef<int64_t>& dilation,
    bool ceil_mode,
    Window& height,
    Window& width,
    Shape& out_sizes,
    int32_t& planes);

/// aten::max_pool2d_with_indices.out, contiguous.
template <class S>
std::tuple<Tensor&, Tensor&> max_pool2d_with_indices_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    bool ceil_mode,
    Tensor& out,
    Tensor& indices) {
  const std::tuple<Tensor&, Tensor&> result(out, indices);
  Window height;
  Window width;
  Shape out_sizes;
  int32_t planes = 0;
  if (!same_dtype_or_fail(ctx, self, out) || !check_contiguous<S>(ctx, self, out, indices) ||
      !check_pool(
          ctx,
          self,
          kernel_size,
          stride,
          padding,
          dilation,
          ceil_mode,
          height,
          width,
          out_sizes,
          planes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return result;
  }
  int64_t* to_indices = nullptr;
  if constexpr (S::has(Variant::Indices)) {
    KERNEL_CHECK(
        ctx,
        indices.scalar_type() == ScalarType::Long,
        InvalidType,
        result,
        "indices is not int64");
    if (!shape_out<S>(ctx, indices, out_sizes)) {
      return result;
    }
    to_indices = indices.mutable_data_ptr<int64_t>();
  }
  dispatch<StoredRealTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    max_pool(
        self.const_data_ptr<T>(), out.mutable_data_ptr<T>(), to_indices, planes, height, width);
  });
  return result;
}

/// What avg_pool2d averages.
using AveragedTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Long,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Double>;

/// aten::avg_pool2d.out, contiguous.
template <class S>
Tensor& avg_pool2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    bool ceil_mode,
    bool count_include_pad,
    std::optional<int64_t> divisor_override,
    Tensor& out) {
  Window height;
  Window width;
  Shape out_sizes;
  int32_t planes = 0;
  const int64_t divisor = divisor_override.value_or(1);
  KERNEL_CHECK(
      ctx,
      divisor != 0 && divisor == static_cast<int32_t>(divisor),
      InvalidArgument,
      out,
      "divisor_override is 0 or out of range");
  if (!same_dtype_or_fail(ctx, self, out) || !check_contiguous<S>(ctx, self, out) ||
      !check_pool(
          ctx,
          self,
          kernel_size,
          stride,
          padding,
          {},
          ceil_mode,
          height,
          width,
          out_sizes,
          planes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  dispatch<AveragedTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    avg_pool(
        self.const_data_ptr<T>(),
        out.mutable_data_ptr<T>(),
        planes,
        height,
        width,
        count_include_pad,
        divisor_override.has_value() ? static_cast<int32_t>(divisor) : 0);
  });
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
