#include "kernels/cortex_m/packed.h"

namespace torch {
namespace executor {
namespace native {
namespace cortex_m {

namespace {

constexpr bool supports(Arrangement arrangement) {
#if defined(__ARM_FEATURE_MVE)
  return arrangement == Arrangement::Mve;
#elif defined(__ARM_FEATURE_DSP)
  return arrangement == Arrangement::Dsp;
#else
  return arrangement == Arrangement::Mve || arrangement == Arrangement::Dsp;
#endif
}

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace

bool open_packed(
    KernelRuntimeContext& ctx,
    const Tensor& packed,
    LayerKind kind,
    PackedParts& parts) {
  const auto* const data = packed.const_data_ptr<int8_t>();
  const auto* const layer = reinterpret_cast<const PackedLayer*>(data);
  const int64_t size = packed.numel();
  KERNEL_CHECK(
      ctx,
      packed.scalar_type() == ScalarType::Char && (reinterpret_cast<uintptr_t>(data) & 3) == 0 &&
          size >= static_cast<int64_t>(sizeof(PackedLayer)) && layer->version == kPackedVersion &&
          layer->kind == kind,
      InvalidProgram,
      false,
      "A packed constant is none of its operator's");
  KERNEL_CHECK(
      ctx,
      supports(layer->arrangement),
      DelegateInvalidCompatibility,
      false,
      "The program was packed for another core than this image's: export it for this core");
  bool in_range = layer->in_channels > 0 && layer->in_channels < 0x10000 && layer->channels > 0 &&
      layer->channels < 0x10000;
  for (size_t i = 0; i < 2; ++i) {
    in_range = in_range && layer->kernel[i] > 0 && layer->kernel[i] < 0x100 &&
        layer->stride[i] > 0 && layer->stride[i] < 0x8000 && layer->padding[i] < 0x8000 &&
        layer->dilation[i] > 0 && layer->dilation[i] < 0x8000;
  }
  KERNEL_CHECK(ctx, in_range, InvalidProgram, false, "A packed constant's sizes are out of range");

  const int64_t taps = int64_t{layer->kernel[0]} * layer->kernel[1];
  const bool is_depthwise = kind == LayerKind::Depthwise;
  const int64_t inner = is_depthwise ? taps : taps * layer->in_channels;
  const int64_t channels = round_up(layer->channels, 2);
  const bool is_mve = layer->arrangement == Arrangement::Mve;
  const int64_t padded_inner = is_depthwise || is_mve ? inner : round_up(inner, 4);
  const int64_t weights = is_depthwise ? inner * round_up(layer->channels, 4)
      : is_mve ? inner * (layer->channels - 1) + round_up(inner, 16)
               : padded_inner * round_up(layer->channels, 2);
  const int64_t shifts = round_up(channels, 4);
  const int64_t needed =
      static_cast<int64_t>(sizeof(PackedLayer)) + 8 * channels + shifts + weights;
  KERNEL_CHECK(
      ctx,
      inner < 0x8000000 && size >= needed,
      InvalidProgram,
      false,
      "A packed constant is too short");
  parts.layer = layer;
  parts.bias = reinterpret_cast<const int32_t*>(data + sizeof(PackedLayer));
  parts.multipliers = parts.bias + channels;
  parts.shifts = reinterpret_cast<const int8_t*>(parts.multipliers + channels);
  parts.weights = parts.shifts + shifts;
  parts.inner = static_cast<int32_t>(inner);
  parts.padded_inner = static_cast<int32_t>(padded_inner);
  return true;
}

} // namespace cortex_m
} // namespace native
} // namespace executor
} // namespace torch
