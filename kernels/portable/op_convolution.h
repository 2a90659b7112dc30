#pragma once

#include <optional>
#include <type_traits>

#include "kernels/portable/convolution.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// The arguments of a convolution, in the order of its schema.
struct ConvolutionArguments {
  const Tensor& input;
  const Tensor& weight;
  const std::optional<Tensor>& bias;
  const ArrayRef<int64_t>& stride;
  const ArrayRef<int64_t>& padding;
  const ArrayRef<int64_t>& dilation;
  bool transposed;
  const ArrayRef<int64_t>& output_padding;
  int64_t groups;
};

/**
 * Checks the arguments of a convolution of one to three dims, transposed or not, and describes it.
 * Fails the context and returns false if they do not fit together.
 */
bool check_convolution(
    KernelRuntimeContext& ctx,
    const ConvolutionArguments& arguments,
    const Tensor& out,
    ConvolutionShape& shape,
    Shape& out_sizes);

/// The strides of a convolution's tensors in any dim order.
ConvolutionStrides
convolution_strides(const Tensor& input, const Tensor& weight, const Tensor& out);

/**
 * aten::convolution.out; fast for contiguous tensors: input [N, C, size...], weight [O, C / groups,
 * kernel...], or transposed [C, O / groups, kernel...], as PyTorch stores it.
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
    ArrayRef<int64_t> output_padding,
    int64_t groups,
    Tensor& out) {
  ConvolutionShape shape;
  Shape out_sizes;
  const ConvolutionArguments arguments = {
      input, weight, bias, stride, padding, dilation, transposed, output_padding, groups};
  if (!check_convolution(ctx, arguments, out, shape, out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  dispatch<StoredRealTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = input.const_data_ptr<T>();
    const T* const filter = weight.const_data_ptr<T>();
    const T* const offset = bias.has_value() ? bias->const_data_ptr<T>() : nullptr;
    T* const to = out.mutable_data_ptr<T>();
    if constexpr (S::has(Variant::DimOrder)) {
      if (!is_contiguous(input) || !is_contiguous(weight) || !is_contiguous(out)) {
        strided_convolution(
            from, filter, offset, to, shape, convolution_strides(input, weight, out));
        return;
      }
    }
    if constexpr (std::is_same_v<T, float>) {
      if (transposed) {
        if constexpr (S::has(Variant::Option)) {
          transposed_convolution(from, filter, offset, to, shape);
        } else {
          ctx.fail(Error::NotSupported);
        }
        return;
      }
    }
    convolution(from, filter, offset, to, shape);
  });
  return out;
}

} // namespace torch::executor::native
