#pragma once

#include <optional>

#include "kernels/portable/convolution.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/**
 * Checks the arguments of a 1-d or 2-d convolution and describes it. Fails the
 * context and returns false if they do not fit together, or for what the kernel
 * does not do: transposed convolutions and other numbers of dims (NotSupported).
 */
bool check_convolution(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    const ArrayRef<int64_t>& stride,
    const ArrayRef<int64_t>& padding,
    const ArrayRef<int64_t>& dilation,
    bool transposed,
    int64_t groups,
    const Tensor& out,
    ConvolutionShape& shape,
    Shape& out_sizes);

/**
 * aten::convolution.out of one or two dims, contiguous: input [N, C, H,
 * W] or [N, C, L], weight [O, C / groups, kernel...] as PyTorch stores it.
 */
template <class S>
Tensor& convolution_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    ArrayRef<int64_t> stride,
    ArrayRef<int64_t> padding,
    ArrayRef<int64_t> dilation,
    bool transposed,
    ArrayRef<int64_t> /*output_padding*/,
    int64_t groups,
    Tensor& out) {
  ConvolutionShape shape;
  Shape out_sizes;
  if (!check_contiguous<S>(ctx, input, weight, out) ||
      !check_convolution(
          ctx,
          input,
          weight,
          bias,
          stride,
          padding,
          dilation,
          transposed,
          groups,
          out,
          shape,
          out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  dispatch<RealTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    convolution(
        input.const_data_ptr<T>(),
        weight.const_data_ptr<T>(),
        bias.has_value() ? bias->const_data_ptr<T>() : nullptr,
        out.mutable_data_ptr<T>(),
        shape);
  });
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
