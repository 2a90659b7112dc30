#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/pool.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// The arguments that 2-d poolings share, in the order of their schemas.
struct PoolArguments {
  const Tensor& self;
  const ArrayRef<int64_t>& kernel_size;
  const ArrayRef<int64_t>& stride;
  const ArrayRef<int64_t>& padding;
  const ArrayRef<int64_t>& dilation;
  bool ceil_mode;
};

/// The parameters of a 2-d pooling.
struct PreparedPool {
  Window height;
  Window width;
  int32_t planes;
  /// The shape of the result.
  Shape sizes;
};

/**
 * Performs the common checks of 2-d poolings, and derives the parameters of the computation.
 * Padding is at most half the kernel, so that every window overlaps the input.
 */
bool check_pool(KernelRuntimeContext& ctx, const PoolArguments& arguments, PreparedPool& prepared);

/// The planes of an image; fails the context (NotSupported) and returns false if its rows do not
/// follow one another.
bool planes_of(KernelRuntimeContext& ctx, const Tensor& image, StridedPlanes& planes);

/// Calls `body` with the addresses of the planes of two images.
template <class S, class Body>
inline __attribute__((always_inline)) void
visit_planes(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& out, const Body& body) {
  if constexpr (S::has(Variant::DimOrder)) {
    if (!is_contiguous(self) || !is_contiguous(out)) {
      StridedPlanes from;
      StridedPlanes to;
      if (planes_of(ctx, self, from) && planes_of(ctx, out, to)) {
        body(from, to);
      }
      return;
    }
  }
  body(ContiguousPlanes(), ContiguousPlanes());
}

/// Maximum pooling of two dims; `indices` may be null.
template <class S>
void max_pool2d(
    KernelRuntimeContext& ctx,
    const PoolArguments& arguments,
    Tensor& out,
    Tensor* indices) {
  const Tensor& self = arguments.self;
  PreparedPool prepared;
  if (!same_dtype_or_fail(ctx, self, out) || !check_pool(ctx, arguments, prepared) ||
      !shape_out<S>(ctx, out, prepared.sizes)) {
    return;
  }
  int64_t* to_indices = nullptr;
  if (indices != nullptr) {
    if (!dtype_or_fail(ctx, *indices, ScalarType::Long, "indices") ||
        !shape_out<S>(ctx, *indices, prepared.sizes)) {
      return;
    }
    if constexpr (S::has(Variant::DimOrder)) {
      KERNEL_CHECK(
          ctx,
          same_dim_order(out, *indices),
          NotSupported,
          void(),
          "indices lies in another order than out");
    }
    to_indices = indices->mutable_data_ptr<int64_t>();
  }
  dispatch<StoredRealTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_planes<S>(ctx, self, out, [&](auto from, auto to) __attribute__((always_inline)) {
      max_pool(
          self.const_data_ptr<T>(),
          out.mutable_data_ptr<T>(),
          to_indices,
          prepared.planes,
          from,
          to,
          prepared.height,
          prepared.width);
    });
  });
}

/**
 * torch_fusion::max_pool2d.out: aten::max_pool2d_with_indices.out for programs that do
 * not read the indices; tools/pipeline/export/rewrite/own_operators.py puts it in its place.
 */
template <class S>
Tensor& max_pool2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    bool ceil_mode,
    Tensor& out) {
  max_pool2d<S>(ctx, {self, kernel_size, stride, padding, dilation, ceil_mode}, out, nullptr);
  return out;
}

/// aten::max_pool2d_with_indices.out.
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
  const bool reads_indices = S::has(Variant::Indices);
  max_pool2d<S>(
      ctx,
      {self, kernel_size, stride, padding, dilation, ceil_mode},
      out,
      reads_indices ? &indices : nullptr);
  return {out, indices};
}

/// The dtypes that avg_pool2d averages.
using AveragedTypes = DtypeList<
    ScalarType::Float,
    ScalarType::Long,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Double>;

/// aten::avg_pool2d.out.
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
  const ArrayRef<int64_t> dilation;
  const PoolArguments arguments = {self, kernel_size, stride, padding, dilation, ceil_mode};
  PreparedPool prepared;
  const int64_t divisor = divisor_override.value_or(1);
  KERNEL_CHECK(
      ctx,
      divisor != 0 && divisor == static_cast<int32_t>(divisor),
      InvalidArgument,
      out,
      "divisor_override is 0 or out of range");
  if (!same_dtype_or_fail(ctx, self, out) || !check_pool(ctx, arguments, prepared) ||
      !shape_out<S>(ctx, out, prepared.sizes)) {
    return out;
  }
  dispatch<AveragedTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_planes<S>(ctx, self, out, [&](auto from, auto to) __attribute__((always_inline)) {
      avg_pool(
          self.const_data_ptr<T>(),
          out.mutable_data_ptr<T>(),
          prepared.planes,
          from,
          to,
          prepared.height,
          prepared.width,
          count_include_pad,
          divisor_override.has_value() ? static_cast<int32_t>(divisor) : 0);
    });
  });
  return out;
}

/// Checks the arguments of _adaptive_avg_pool2d and computes the result's shape.
bool check_adaptive_pool(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& output_size,
    const Tensor& out,
    Shape& out_sizes,
    int32_t& planes);

/// aten::_adaptive_avg_pool2d.out.
template <class S>
Tensor& adaptive_avg_pool2d_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    ArrayRef<int64_t> output_size,
    Tensor& out) {
  Shape out_sizes;
  int32_t planes = 0;
  if (!check_adaptive_pool(ctx, self, output_size, out, out_sizes, planes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  const auto sizes = self.sizes();
  dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_planes<S>(ctx, self, out, [&](auto from, auto to) __attribute__((always_inline)) {
      adaptive_avg_pool(
          self.const_data_ptr<T>(),
          out.mutable_data_ptr<T>(),
          planes,
          from,
          to,
          sizes[sizes.size() - 2],
          sizes[sizes.size() - 1],
          out_sizes.sizes[sizes.size() - 2],
          out_sizes.sizes[sizes.size() - 1]);
    });
  });
  return out;
}

/// aten::max_pool2d_with_indices_backward.grad_input, contiguous.
template <class S>
Tensor& max_pool2d_with_indices_backward_out(
    KernelRuntimeContext& ctx,
    const Tensor& grad_output,
    const Tensor& self,
    ArrayRef<int64_t> kernel_size,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    bool ceil_mode,
    const Tensor& indices,
    Tensor& grad_input) {
  const PoolArguments arguments = {self, kernel_size, stride, padding, dilation, ceil_mode};
  PreparedPool prepared;
  if (!same_dtype_or_fail(ctx, self, grad_output) || !same_dtype_or_fail(ctx, self, grad_input) ||
      !check_contiguous<S>(ctx, grad_output, self, indices, grad_input) ||
      !check_pool(ctx, arguments, prepared) || !compare_out(ctx, grad_output, prepared.sizes) ||
      !compare_out(ctx, indices, prepared.sizes) || !shape_out<S>(ctx, grad_input, self.sizes()) ||
      !dtype_or_fail(ctx, indices, ScalarType::Long, "indices")) {
    return grad_input;
  }
  dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool is_done = max_pool_backward(
        grad_output.const_data_ptr<T>(),
        indices.const_data_ptr<int64_t>(),
        grad_input.mutable_data_ptr<T>(),
        prepared.planes,
        prepared.height.in * prepared.width.in,
        prepared.height.out * prepared.width.out);
    KERNEL_CHECK(ctx, is_done, InvalidArgument, void(), "An index lies beyond its plane");
  });
  return grad_input;
}

} // namespace torch::executor::native
