#pragma once

#include <optional>

#include "kernels/portable/gemm.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/**
 * aten::linear.out. Weight layout [out_features, in_features], as PyTorch
 * stores it: each row is read once, in order.
 */
template <class S>
Tensor& linear_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    Tensor& out) {
  const auto in_sizes = input.sizes();
  const auto weight_sizes = weight.sizes();
  KERNEL_CHECK(
      ctx,
      in_sizes.size() >= 1 && weight_sizes.size() == 2 &&
          in_sizes[in_sizes.size() - 1] == weight_sizes[1],
      InvalidArgument,
      out,
      "weight is not [out_features, input's last size]");
  KERNEL_CHECK(
      ctx,
      !bias.has_value() ||
          (bias->scalar_type() == input.scalar_type() && bias->dim() == 1 &&
           bias->numel() == weight_sizes[0]),
      InvalidArgument,
      out,
      "bias is not [out_features] of input's dtype");
  if (!same_dtype_or_fail(ctx, input, weight) || !same_dtype_or_fail(ctx, input, out) ||
      !check_contiguous<S>(ctx, input, weight, out)) {
    return out;
  }
  const size_t in_features = static_cast<size_t>(weight_sizes[1]);
  const size_t out_features = static_cast<size_t>(weight_sizes[0]);
  size_t rows = 1;
  if (in_features != 0) {
    rows = static_cast<size_t>(input.numel()) / in_features;
  } else {
    for (size_t i = 0; i + 1 < in_sizes.size(); ++i) {
      rows *= static_cast<size_t>(in_sizes[i]);
    }
  }
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape shape(in_sizes);
    shape.sizes[shape.dims - 1] = weight_sizes[0];
    if (!resize_out(ctx, out, shape)) {
      return out;
    }
  } else {
    // The product may have more than 32 bits: in_features may be 0, and memory shared.
    size_t count;
    KERNEL_CHECK(
        ctx,
        !__builtin_mul_overflow(rows, out_features, &count) &&
            static_cast<size_t>(out.numel()) == count,
        InvalidArgument,
        out,
        "out does not have the shape of the result");
  }
  dispatch<StoredRealTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    linear(
        input.const_data_ptr<T>(),
        weight.const_data_ptr<T>(),
        bias.has_value() ? bias->const_data_ptr<T>() : nullptr,
        out.mutable_data_ptr<T>(),
        rows,
        in_features,
        out_features);
  });
  return out;
}

} // namespace torch::executor::native
