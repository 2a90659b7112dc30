#include "kernels/cortex_m/packed.h"

#include <cstddef>

#include "kernels/cortex_m/requantize.h"
#include "kernels/util/aligned.h"
#include "runtime/kernel/kernel_lookup.h"

namespace torch::executor::native::cortex_m {

namespace {

constexpr bool supports(Arrangement arrangement) {
#if defined(__ARM_FEATURE_MVE)
  return arrangement == Arrangement::Mve;
#elif defined(__ARM_FEATURE_DSP)
  return arrangement == Arrangement::Dsp;
#elif defined(__thumb__)
  return arrangement == Arrangement::Mve || arrangement == Arrangement::Scalar;
#else
  return arrangement >= Arrangement::Scalar && arrangement <= Arrangement::Dsp;
#endif
}

/// Checks values that no kernel checks before using them.
void check_contents(KernelRuntimeContext& ctx, const PackedParts& parts) {
  const PackedLayer& layer = *parts.layer;
  const bool halves = layer.arrangement != Arrangement::Mve && layer.is_wide == 0;
  const int32_t least = halves ? 0 : kMinShift;
  // Rounded up to fours, with zeros.
  for (const int8_t* shift = parts.shifts; shift != parts.weights; ++shift) {
    if (*shift < least || *shift > kMaxShift) {
      ET_LOG(Error, "A packed constant's shifts are out of range");
      ctx.fail(Error::InvalidProgram);
    }
  }
}

/// Checks a packed constant of any kind when it is loaded, and finds its parts.
bool open_packed(KernelRuntimeContext& ctx, const Tensor& packed, PackedParts& parts) {
  const auto* const data = packed.const_data_ptr<int8_t>();
  const auto* const layer = aligned_cast<const PackedLayer>(data);
  const auto size = static_cast<uint32_t>(packed.numel());
  KERNEL_CHECK(
      ctx,
      packed.scalar_type() == ScalarType::Char && (reinterpret_cast<uintptr_t>(data) & 3) == 0 &&
          size >= sizeof(PackedLayer) && layer->version == kPackedVersion,
      InvalidProgram,
      false,
      "A constant is no packed layer of this version");
  const LayerKind kind = layer->kind;
  KERNEL_CHECK(
      ctx,
      supports(layer->arrangement),
      DelegateInvalidCompatibility,
      false,
      "The program was packed for another core than this image's: export it for this core");
  // Negative numbers exceed any limit as unsigned ones.
  const auto is_within = [](int32_t value, uint32_t limit) {
    return static_cast<uint32_t>(value) - 1 < limit;
  };
  bool in_range =
      is_within(layer->in_channels, kMaxPackedSize) && is_within(layer->channels, kMaxPackedSize);
  uint32_t taps = 1;
  if (is_int4(kind)) {
    in_range = in_range && layer->is_wide == 0 &&
        (layer->group_size == 0 || layer->group_size == kInt4Block);
  } else if (kind != LayerKind::Linear) {
    for (size_t i = 0; i < 2; ++i) {
      in_range = in_range && is_within(layer->kernel[i], kMaxPackedWindow) &&
          is_within(layer->stride[i], kMaxPackedWindow) && layer->padding[i] <= kMaxPackedWindow &&
          is_within(layer->dilation[i], kMaxPackedWindow);
      taps *= layer->kernel[i];
    }
    in_range =
        in_range && taps <= kMaxPackedSize && (kind != LayerKind::Grouped || layer->group_size > 0);
  }
  KERNEL_CHECK(ctx, in_range, InvalidProgram, false, "A packed constant's sizes are out of range");

  const PackedCounts counts = packed_counts(*layer, kind, taps);
  const bool is_depthwise = kind == LayerKind::Depthwise;
  const bool is_mve = is_for_vectors(*layer);
  const uint32_t rows = is_int4(kind) ? counts.table_channels / 4
      : is_depthwise                  ? round_up(layer->in_channels, 4) *
          static_cast<uint32_t>(layer->channels / layer->in_channels)
      : is_mve ? static_cast<uint32_t>(layer->channels)
               : counts.table_channels;
  const bool is_padded = is_mve && !is_depthwise && !is_int4(kind);
  const uint32_t around = counts.tables + (is_padded ? -counts.inner % 16 : 0);
  // Bytes of a row, or of the int4 weights of four channels.
  const uint32_t row_bytes = is_int4(kind) ? int4_group_bytes(*layer, counts) : counts.padded_inner;
  KERNEL_CHECK(
      ctx,
      counts.inner <= kMaxPackedInner && size >= around && (size - around) / row_bytes >= rows,
      InvalidProgram,
      false,
      "A packed constant is too short");
  parts = packed_parts(data, kind, counts);
  return true;
}

} // namespace

bool find_packed(
    KernelRuntimeContext& ctx,
    const Tensor& packed,
    LayerKind kind,
    PackedParts& parts) {
  const auto* const data = packed.const_data_ptr<int8_t>();
  const auto& layer = *aligned_cast<const PackedLayer>(data);
  KERNEL_CHECK(
      ctx,
      layer.kind == kind,
      InvalidProgram,
      false,
      "A packed constant is none of its operator's");
  const bool has_window = kind != LayerKind::Linear && !is_int4(kind);
  const uint32_t taps = has_window ? static_cast<uint32_t>(layer.kernel[0]) * layer.kernel[1] : 1;
  parts = packed_parts(data, kind, packed_counts(layer, kind, taps));
  return true;
}

} // namespace torch::executor::native::cortex_m

namespace executorch::runtime {

Error internal::check_packed(const executorch::aten::Tensor& constant) {
  namespace cortex_m = torch::executor::native::cortex_m;
  KernelRuntimeContext context;
  cortex_m::PackedParts parts;
  if (cortex_m::open_packed(context, constant, parts)) {
    cortex_m::check_contents(context, parts);
  }
  return context.failure_state();
}

} // namespace executorch::runtime
