#pragma once

#include <cstdint>

#include "kernels/util/checks.h"

namespace torch::executor::native {

/// One dim of a window that moves over an input: of a convolution or pooling.
/// `in` and `kernel` are set by the caller, the rest by set().
struct Window {
  int32_t in = 1;
  int32_t kernel = 1;
  int32_t stride = 1;
  int32_t padding = 0;
  int32_t dilation = 1;
  int32_t out = 1;

  /**
   * Takes the parameters of dim `dim` from their lists, where a list of one
   * element holds for all dims and an empty one means the default: a stride of
   * `kernel`, no padding, no dilation. Computes `out` as PyTorch does:
   * floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, with
   * `ceil_mode` rounded up, but so that the last window starts within the input
   * or the left padding.
   *
   * @returns false after failing the context (InvalidArgument) if a parameter is
   *     out of range or the window does not fit in.
   */
  bool set(
      KernelRuntimeContext& ctx,
      const ArrayRef<int64_t>& strides,
      const ArrayRef<int64_t>& paddings,
      const ArrayRef<int64_t>& dilations,
      size_t dim,
      bool ceil_mode);

  /**
   * As set(), for a transposed convolution: `out` is
   * (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1, which must be at
   * least 1, and an output padding is smaller than the stride or the dilation.
   */
  bool set_transposed(
      KernelRuntimeContext& ctx,
      const ArrayRef<int64_t>& strides,
      const ArrayRef<int64_t>& paddings,
      const ArrayRef<int64_t>& dilations,
      const ArrayRef<int64_t>& output_paddings,
      size_t dim);

  /// Dilation and stride, limited to where two elements, or two outputs, are inside the input:
  /// products with the length of a row then fit in 32 bits.
  int32_t inner_dilation() const {
    return dilation < in ? dilation : in;
  }
  int32_t inner_stride() const {
    return stride < in ? stride : in;
  }

 private:
  bool set_parameters(
      KernelRuntimeContext& ctx,
      const ArrayRef<int64_t>& strides,
      const ArrayRef<int64_t>& paddings,
      const ArrayRef<int64_t>& dilations,
      size_t dim);
};

/// The element of a list of parameters for a dim; see Window::set().
int64_t parameter(const ArrayRef<int64_t>& values, size_t dim, int64_t default_value);

} // namespace torch::executor::native
