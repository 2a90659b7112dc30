#include "kernels/cortex_m/op_packed.h"

namespace torch::executor::native::cortex_m {

namespace {

/// Fails the context (InvalidArgument) and returns false unless there is scratch memory enough,
/// with an element for each byte.
ET_INLINE bool check_scratch(KernelRuntimeContext& ctx, const Tensor& scratch, int64_t needed) {
  CHECK_ARGUMENT(
      ctx,
      int64_t{scratch.numel()} >= needed &&
          (reinterpret_cast<uintptr_t>(scratch.const_data_ptr()) & 3) == 0,
      "scratch has %zu bytes, and the layer needs %d",
      scratch.nbytes(),
      static_cast<int>(needed));
  return true;
}

} // namespace

bool check_packed_images(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const PackedImageKernel& kernel,
    const Tensor& scratch,
    const Tensor& out,
    PackedParts& parts,
    PackedImages& images,
    Shape& sizes) {
  const LayerKind kind = kernel.kind;
  if (!check_int8(ctx, input, out) || !find_packed(ctx, packed, kind, parts)) {
    return false;
  }
  const PackedLayer& layer = *parts.layer;
  const auto in_sizes = input.sizes();
  CHECK_ARGUMENT(
      ctx,
      in_sizes.size() == 4 && in_sizes[1] == layer.in_channels,
      "input does not have the channels that its layer was packed for");
  KERNEL_CHECK(
      ctx,
      kernel.takes(layer),
      InvalidProgram,
      false,
      "A packed layer's kernel, channels, stride or dilation are none that its operator has");
  images.batch = in_sizes[0];
  Window* const windows[] = {&images.height, &images.width};
  sizes.append(in_sizes[0]);
  sizes.append(layer.channels);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t stride = layer.stride[i];
    const int64_t padding = layer.padding[i];
    const int64_t dilation = layer.dilation[i];
    windows[i]->in = in_sizes[2 + i];
    windows[i]->kernel = layer.kernel[i];
    if (!windows[i]->set(ctx, {&stride, 1}, {&padding, 1}, {&dilation, 1}, 0, false)) {
      return false;
    }
    sizes.append(windows[i]->out);
  }
  return check_scratch(ctx, scratch, kernel.scratch(parts, images.width));
}

bool check_channels_last(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out) {
  Image in_shape;
  Image out_shape;
  if (!describe_image(ctx, input, in_shape) || !describe_image(ctx, out, out_shape)) {
    return false;
  }
  KERNEL_CHECK(
      ctx,
      is_channels_last(in_shape) && is_channels_last(out_shape),
      NotSupported,
      false,
      "input or out does not lie channels last");
  return true;
}

bool check_packed_linear(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    PackedParts& parts) {
  const auto* const data = packed.const_data_ptr<int8_t>();
  if (aligned_cast<const PackedLayer>(data)->kind != LayerKind::Linear) {
    // It fails.
    return find_packed(ctx, packed, LayerKind::Linear, parts);
  }
  parts = linear_parts(data);
  const auto in_sizes = input.sizes();
  CHECK_ARGUMENT(
      ctx,
      !in_sizes.empty() && in_sizes.back() == parts.inner,
      "input does not have the features that its layer was packed for");
  return true;
}

bool check_rows_scratch(
    KernelRuntimeContext& ctx,
    const PackedParts& parts,
    const Tensor& scratch) {
  return check_scratch(ctx, scratch, linear_rows_scratch(parts));
}

bool check_transposed(KernelRuntimeContext& ctx, const Tensor& packed, const Tensor& out) {
  const auto& layer = *aligned_cast<const PackedLayer>(packed.const_data_ptr<int8_t>());
  KERNEL_CHECK(
      ctx,
      layer.arrangement != Arrangement::Mve &&
          out.shape_dynamism() == executorch::aten::TensorShapeDynamism::STATIC,
      NotSupported,
      false,
      "A linear layer with transposed outputs is arranged for MVE, or its shape is dynamic");
  return true;
}

} // namespace torch::executor::native::cortex_m
