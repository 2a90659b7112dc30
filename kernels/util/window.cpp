#include "kernels/util/window.h"

namespace torch {
namespace executor {
namespace native {

namespace {

// Keeps all products of two parameters within 32 bits.
constexpr int32_t kLimit = 0x7fff;

} // namespace

int64_t parameter(const ArrayRef<int64_t>& values, size_t dim, int64_t default_value) {
  if (values.size() == 0) {
    return default_value;
  }
  return values[values.size() == 1 ? 0 : dim];
}

bool Window::set(
    KernelRuntimeContext& ctx,
    const ArrayRef<int64_t>& strides,
    const ArrayRef<int64_t>& paddings,
    const ArrayRef<int64_t>& dilations,
    size_t dim,
    bool ceil_mode) {
  const bool lists_fit = (strides.size() <= 1 || dim < strides.size()) &&
      (paddings.size() <= 1 || dim < paddings.size()) &&
      (dilations.size() <= 1 || dim < dilations.size());
  KERNEL_CHECK(ctx, lists_fit, InvalidArgument, false, "stride, padding or dilation is too short");
  const int64_t wide_stride = parameter(strides, dim, kernel);
  const int64_t wide_padding = parameter(paddings, dim, 0);
  const int64_t wide_dilation = parameter(dilations, dim, 1);
  KERNEL_CHECK(
      ctx,
      kernel >= 1 && kernel <= kLimit && wide_stride >= 1 && wide_stride <= kLimit &&
          wide_padding >= 0 && wide_padding <= kLimit && wide_dilation >= 1 &&
          wide_dilation <= kLimit,
      InvalidArgument,
      false,
      "Kernel size, stride, padding or dilation is out of range");
  stride = static_cast<int32_t>(wide_stride);
  padding = static_cast<int32_t>(wide_padding);
  dilation = static_cast<int32_t>(wide_dilation);
  const int32_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  KERNEL_CHECK(
      ctx,
      in >= 0 && in < 0x10000000 && room >= 0,
      InvalidArgument,
      false,
      "The kernel is larger than the padded input");
  out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) {
    --out;
  }
  return true;
}

} // namespace native
} // namespace executor
} // namespace torch
