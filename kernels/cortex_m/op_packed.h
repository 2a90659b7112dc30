#pragma once

#include "kernels/cortex_m/packed_depthwise.h"
#include "kernels/cortex_m/packed_layers.h"
#include "kernels/soft_double.h"
#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// A way to compute packed layers of a kind on images: the layers that it takes, and the bytes of
/// scratch memory that it needs for them.
struct PackedImageKernel {
  LayerKind kind;
  bool (*takes)(const PackedLayer& layer);
  int64_t (*scratch)(const PackedParts& parts, const Window& width);
  PackedImagesFunction<const PackedParts&>* compute;
};

/// Checks a packed layer on images against its tensors, and describes it.
bool check_packed_images(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const PackedImageKernel& kernel,
    const Tensor& scratch,
    const Tensor& out,
    PackedParts& parts,
    PackedImages& images,
    Shape& sizes);

/// Fails the context (NotSupported) and returns false unless both images are channels-last.
bool check_channels_last(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out);

/// Checks a packed linear layer against its input.
bool check_packed_linear(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    PackedParts& parts);

/// Fails the context (InvalidArgument) and returns false unless there is scratch memory enough for
/// linear_rows and linear_transposed.
bool check_rows_scratch(KernelRuntimeContext& ctx, const PackedParts& parts, const Tensor& scratch);

/// Fails the context (NotSupported) and returns false unless a layer's outputs can be transposed:
/// it is not arranged for MVE, and `out` has static sizes.
bool check_transposed(KernelRuntimeContext& ctx, const Tensor& packed, const Tensor& out);

/// Fails the context and returns false unless inputs and outputs are of int8, or of float32, of
/// which a linear layer quantizes at most kMostFloats.
ET_INLINE bool check_floats(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out) {
  const bool reads_floats = input.scalar_type() == ScalarType::Float;
  KERNEL_CHECK(
      ctx,
      !reads_floats || input.numel() <= kMostFloats,
      InvalidArgument,
      false,
      "input has more numbers than a linear layer quantizes");
  return (reads_floats || int8_or_fail(ctx, input)) &&
      (out.scalar_type() == ScalarType::Float || int8_or_fail(ctx, out));
}

// The geometry that the schemas have is for the export's shape inference; the packed constant says
// it all.

/// Computes a packed layer on images, channels last.
template <class S>
void packed_images_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    const PackedImageKernel& kernel,
    Tensor& scratch,
    Tensor& out) {
  PackedParts parts;
  PackedImages images;
  Shape sizes;
  if (check_packed_images(ctx, input, packed, kernel, scratch, out, parts, images, sizes) &&
      shape_out<S>(ctx, out, sizes) && check_channels_last(ctx, input, out)) {
    kernel.compute(
        parts,
        images,
        input.const_data_ptr<int8_t>(),
        scratch.mutable_data_ptr<int8_t>(),
        out.mutable_data_ptr<int8_t>());
  }
}

/// torch_fusion::convolution.out and its like: images channels last.
template <class S, const PackedImageKernel& kKernel>
Tensor& packed_images_of(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  packed_images_out<S>(ctx, input, packed, kKernel, scratch, out);
  return out;
}

/// Calls a kernel that has needs with all of them.
template <PackedImagesNeedsFunction<const PackedParts&>& kKernel>
void compute_any(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  kKernel(parts, images, in, scratch, out, kNeedsAll);
}

inline constexpr PackedImageKernel kConvolution = {
    LayerKind::Convolution,
    takes_convolution,
    convolution_scratch,
    compute_any<packed_convolution>};
inline constexpr PackedImageKernel kGrouped = {
    LayerKind::Grouped,
    takes_grouped,
    grouped_scratch,
    packed_grouped_convolution};
inline constexpr PackedImageKernel kDepthwise = {
    LayerKind::Depthwise,
    takes_depthwise,
    depthwise_scratch,
    compute_any<packed_depthwise>};
template <class S>
constexpr auto& packed_convolution_out = packed_images_of<S, kConvolution>;
template <class S>
constexpr auto& packed_grouped_convolution_out = packed_images_of<S, kGrouped>;
/// Has one output channel per input channel.
template <class S>
constexpr auto& packed_depthwise_convolution_out = packed_images_of<S, kDepthwise>;

/// Gives `out` the input's sizes with a layer's channels as dim `dim`. Fails the context
/// (InvalidArgument) and returns false if it has no room for `rows` vectors of them.
template <class S>
ET_INLINE bool size_channels(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    size_t dim,
    const PackedParts& parts,
    int32_t rows,
    Tensor& out) {
  const int32_t channels = parts.layer->channels;
  if constexpr (S::has(Variant::DynamicShape)) {
    if (out.shape_dynamism() != executorch::aten::TensorShapeDynamism::STATIC) {
      Shape sizes(input.sizes());
      sizes.sizes[dim] = channels;
      return resize_out(ctx, out, sizes);
    }
  }
  // Static shapes, which the export checks, need no more than this for memory safety.
  CHECK_ARGUMENT(
      ctx,
      int64_t{rows} * channels == out.numel(),
      "out does not have the elements that the layer computes");
  return true;
}

/// Checks a linear layer but for dtypes, and gives `out` its sizes. Returns the number of rows;
/// fails the context and returns -1 if it has none.
template <class S>
int32_t open_rows(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    Tensor& out,
    PackedParts& parts) {
  if (!check_packed_linear(ctx, input, packed, parts)) {
    return -1;
  }
  if constexpr (S::has(Variant::DynamicShape)) {
    // The export checks static shapes.
    if (out.shape_dynamism() != executorch::aten::TensorShapeDynamism::STATIC &&
        !check_contiguous<S>(ctx, input, out)) {
      return -1;
    }
  }
  const int32_t rows = static_cast<int32_t>(input.numel()) / parts.inner;
  return size_channels<S>(ctx, input, input.sizes().size() - 1, parts, rows, out) ? rows : -1;
}

/// Does the same as compute_rows() if inputs or outputs are of float32; not inline, as others need
/// none of its stack.
template <class Function, Function& kFunction, class... More>
ET_NOINLINE void compute_floats(
    KernelRuntimeContext& ctx,
    const PackedParts& parts,
    const Tensor& input,
    int32_t rows,
    Tensor& out,
    More... more) {
  if (!check_floats(ctx, input, out)) {
    return;
  }
  const auto compute = [&](const auto* in, auto* to) {
    packed_linear_floats<Function, kFunction>(parts, in, rows, to, more...);
  };
  if (input.scalar_type() != ScalarType::Float) {
    compute(input.const_data_ptr<int8_t>(), out.mutable_data_ptr<float>());
  } else if (out.scalar_type() != ScalarType::Float) {
    compute(input.const_data_ptr<float>(), out.mutable_data_ptr<int8_t>());
  } else {
    compute(input.const_data_ptr<float>(), out.mutable_data_ptr<float>());
  }
}

/// Computes rows of a linear layer by `kFunction`, whose last arguments are `more`: inputs and
/// outputs are of int8 or float32, see packed_linear_floats().
template <class S, class Function, Function& kFunction, class... More>
void compute_rows(
    KernelRuntimeContext& ctx,
    const PackedParts& parts,
    const Tensor& input,
    int32_t rows,
    Tensor& out,
    More... more) {
  if (S::has(ScalarType::Float) &&
      (input.scalar_type() == ScalarType::Float || out.scalar_type() == ScalarType::Float)) {
    compute_floats<Function, kFunction>(ctx, parts, input, rows, out, more...);
  } else if (check_int8(ctx, input, out)) {
    kFunction(parts, input.const_data_ptr<int8_t>(), rows, out.mutable_data_ptr<int8_t>(), more...);
  }
}

/// Does the same as packed_linear() with all needs. These are a constant for the compiler only if
/// no template has them as an argument.
inline void
packed_linear_any(const PackedParts& parts, const int8_t* in, int32_t rows, int8_t* out) {
  packed_linear(parts, in, rows, out, kNeedsAll);
}

/// torch_fusion::linear.out, contiguous: inputs and outputs are of int8 or float32.
template <class S>
Tensor& packed_linear_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& out) {
  PackedParts parts;
  const int32_t rows = open_rows<S>(ctx, input, packed, out, parts);
  if (rows >= 0) {
    compute_rows<S, decltype(packed_linear_any), packed_linear_any>(ctx, parts, input, rows, out);
  }
  return out;
}

/// torch_fusion::linear_table.out, contiguous: the same as linear, then out = table[out + 128].
template <class S>
Tensor& packed_linear_table_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    const Tensor& table,
    Tensor& out) {
  KERNEL_CHECK(ctx, table.numel() == 256, InvalidArgument, out, "table does not have 256 elements");
  PackedParts parts;
  if (check_int8(ctx, input, table, out)) {
    const int32_t rows = open_rows<S>(ctx, input, packed, out, parts);
    if (rows >= 0) {
      packed_linear_table(
          parts,
          input.const_data_ptr<int8_t>(),
          rows,
          table.const_data_ptr<int8_t>(),
          out.mutable_data_ptr<int8_t>(),
          kNeedsAll);
    }
  }
  return out;
}

/// Computes a linear layer by `kFunction`, which takes scratch memory.
template <class S, LinearRowsFunction<const PackedParts&>& kFunction>
Tensor& packed_linear_lanes(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t /*geometry*/,
    Tensor& scratch,
    Tensor& out) {
  PackedParts parts;
  const int32_t rows = open_rows<S>(ctx, input, packed, out, parts);
  if (rows >= 0 && check_rows_scratch(ctx, parts, scratch)) {
    compute_rows<S, LinearRowsFunction<const PackedParts&>, kFunction>(
        ctx, parts, input, rows, out, scratch.mutable_data_ptr<int8_t>());
  }
  return out;
}

/// torch_fusion::linear_rows.out, contiguous: inputs and outputs are of int8 or float32.
template <class S>
constexpr auto& packed_linear_rows_out = packed_linear_lanes<S, packed_linear_rows>;

/// torch_fusion::linear_transposed.out: the same, with transposed outputs, of static sizes.
template <class S>
Tensor& packed_linear_transposed_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& packed,
    int64_t geometry,
    Tensor& scratch,
    Tensor& out) {
  return check_transposed(ctx, packed, out)
      ? packed_linear_lanes<S, packed_linear_transposed>(ctx, input, packed, geometry, scratch, out)
      : out;
}

} // namespace torch::executor::native::cortex_m
