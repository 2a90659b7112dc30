#include "kernels/util/window.h"

namespace torch::executor::native {

namespace {

// Powers of two. The first keeps all products of two parameters within 32 bits.
constexpr int kLimitBits = 15;
constexpr int kInputBits = 28;

} // namespace

int64_t parameter(const ArrayRef<int64_t>& values, size_t dim, int64_t default_value) {
  if (values.size() == 0) {
    return default_value;
  }
  return values[values.size() == 1 ? 0 : dim];
}

bool Window::set_parameters(
    KernelRuntimeContext& ctx,
    const ArrayRef<int64_t>& strides,
    const ArrayRef<int64_t>& paddings,
    const ArrayRef<int64_t>& dilations,
    size_t dim) {
  const bool lists_fit = (dim < strides.size() || strides.size() <= 1) &&
      (dim < paddings.size() || paddings.size() <= 1) &&
      (dim < dilations.size() || dilations.size() <= 1);
  CHECK_ARGUMENT(ctx, lists_fit, "stride, padding or dilation is too short");
  const int64_t wide_stride = parameter(strides, dim, kernel);
  const int64_t wide_padding = parameter(paddings, dim, 0);
  const int64_t wide_dilation = parameter(dilations, dim, 1);
  // A parameter below its minimum has all upper bits set, and one that is too large some of them.
  const uint64_t bits = (static_cast<uint64_t>(kernel) - 1) |
      (static_cast<uint64_t>(wide_stride) - 1) | static_cast<uint64_t>(wide_padding) |
      (static_cast<uint64_t>(wide_dilation) - 1) |
      static_cast<uint32_t>(in) >> (kInputBits - kLimitBits);
  CHECK_ARGUMENT(
      ctx,
      bits < uint64_t{1} << kLimitBits,
      "Size of input or kernel, stride, padding or dilation is out of range");
  stride = static_cast<int32_t>(wide_stride);
  padding = static_cast<int32_t>(wide_padding);
  dilation = static_cast<int32_t>(wide_dilation);
  return true;
}

bool Window::set(
    KernelRuntimeContext& ctx,
    const ArrayRef<int64_t>& strides,
    const ArrayRef<int64_t>& paddings,
    const ArrayRef<int64_t>& dilations,
    size_t dim,
    bool ceil_mode) {
  if (!set_parameters(ctx, strides, paddings, dilations, dim)) {
    return false;
  }
  // With ceil_mode the last window may exceed the padded input, even if it is the only one.
  const int32_t beyond = ceil_mode ? stride - 1 : 0;
  const int32_t room = in + 2 * padding - dilation * (kernel - 1) - 1 + beyond;
  CHECK_ARGUMENT(ctx, room >= 0, "The kernel is larger than the padded input");
  out = room / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) {
    --out;
  }
  return true;
}

bool Window::set_transposed(
    KernelRuntimeContext& ctx,
    const ArrayRef<int64_t>& strides,
    const ArrayRef<int64_t>& paddings,
    const ArrayRef<int64_t>& dilations,
    const ArrayRef<int64_t>& output_paddings,
    size_t dim) {
  if (!set_parameters(ctx, strides, paddings, dilations, dim)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      output_paddings.size() <= 1 || dim < output_paddings.size(),
      "output_padding is too short");
  const int64_t output_padding = parameter(output_paddings, dim, 0);
  CHECK_ARGUMENT(
      ctx,
      output_padding >= 0 && (output_padding < stride || output_padding < dilation),
      "output_padding is negative, or not smaller than stride or dilation");
  const int64_t size =
      int64_t{in - 1} * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1;
  CHECK_ARGUMENT(
      ctx,
      size >= 1 && size < 0x10000000,
      "The transposed convolution's result is empty or too large");
  out = static_cast<int32_t>(size);
  return true;
}

} // namespace torch::executor::native
