#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/spectrum.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// The arguments that operators on the spectra of frames share.
struct FrameArguments {
  const Tensor& self;
  const std::optional<Tensor>& window;
  const Tensor& roots;
  int64_t size;
  int64_t hop;
  int64_t pad;
  bool reflect;
  int64_t count;
  const Tensor& out;
  const Tensor& work;
};

/**
 * Describes the frames of [signals, samples].
 */
bool describe_frames(KernelRuntimeContext& ctx, const FrameArguments& arguments, Frames& frames);

/// Does the same as describe_frames(), for contiguous tensors; fails the context (NotSupported) for
/// others.
template <class S>
bool check_frames(KernelRuntimeContext& ctx, const FrameArguments& arguments, Frames& frames) {
  return check_contiguous<S>(ctx, arguments.self, arguments.roots, arguments.out, arguments.work) &&
      (!arguments.window.has_value() || check_contiguous<S>(ctx, *arguments.window)) &&
      describe_frames(ctx, arguments, frames);
}

/// Number of frequencies of frames of real numbers: all, or those that are not another's conjugate.
inline int32_t frequencies(int32_t size, bool onesided) {
  return onesided ? size / 2 + 1 : size;
}

/// Calls `put(values, signal, frame)` with the transform of each frame.
template <class S, class Put>
void each_spectrum(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Frames& frames,
    const Put& put) {
  dispatch<DtypeList<ScalarType::Float, ScalarType::Short>, S>(
      ctx, self.scalar_type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* signal = self.const_data_ptr<T>();
        for (int32_t index = 0; index < self.sizes()[0]; ++index, signal += frames.samples) {
          for (int32_t frame = 0; frame < frames.count; ++frame) {
            put(frame_spectrum(frames, signal, frame), index, frame);
          }
        }
      });
}

/**
 * torch_fusion::stft.out: the discrete Fourier transforms of frames that are cut from signals.
 *
 * `out` is [signals, frequencies, frames, 2], real and imaginary parts; `work` is memory that the
 * kernel works in.
 */
template <class S>
std::tuple<Tensor&, Tensor&> stft_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& window,
    const Tensor& roots,
    int64_t size,
    int64_t hop,
    int64_t pad,
    bool reflect,
    int64_t count,
    bool onesided,
    Tensor& out,
    Tensor& work) {
  Frames frames;
  if (!check_frames<S>(
          ctx, {self, window, roots, size, hop, pad, reflect, count, out, work}, frames)) {
    return {out, work};
  }
  const int32_t bins = frequencies(frames.size, onesided);
  const SizesType sizes[] = {self.sizes()[0], bins, frames.count, 2};
  if (!shape_out<S>(ctx, out, {sizes, 4})) {
    return {out, work};
  }
  float* const all = out.mutable_data_ptr<float>();
  each_spectrum<S>(ctx, self, frames, [&](const float* values, int32_t signal, int32_t frame) {
    float* to = all + 2 * (signal * bins * frames.count + frame);
    for (int32_t bin = 0; bin < bins; ++bin, to += 2 * frames.count) {
      // The second half are the conjugates of the first.
      const bool mirrored = 2 * bin > frames.size;
      const float* const value = values + 2 * (mirrored ? frames.size - bin : bin);
      to[0] = value[0];
      to[1] = mirrored ? -value[1] : value[1];
    }
  });
  return {out, work};
}

/**
 * torch_fusion::spectrogram.out: absolute values of what torch_fusion::stft.out computes, or their
 * squares.
 *
 * `out` is [signals, frequencies, frames], or [signals, frames, frequencies] if `frames_first`.
 */
template <class S>
std::tuple<Tensor&, Tensor&> spectrogram_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& window,
    const Tensor& roots,
    int64_t size,
    int64_t hop,
    int64_t pad,
    bool reflect,
    int64_t count,
    bool onesided,
    bool squared,
    bool frames_first,
    Tensor& out,
    Tensor& work) {
  Frames frames;
  if (!check_frames<S>(
          ctx, {self, window, roots, size, hop, pad, reflect, count, out, work}, frames)) {
    return {out, work};
  }
  const int32_t bins = frequencies(frames.size, onesided);
  const SizesType sizes[] = {
      self.sizes()[0], frames_first ? frames.count : bins, frames_first ? bins : frames.count};
  if (!shape_out<S>(ctx, out, {sizes, 3})) {
    return {out, work};
  }
  float* const all = out.mutable_data_ptr<float>();
  const int32_t step = frames_first ? 1 : frames.count;
  each_spectrum<S>(ctx, self, frames, [&](float* values, int32_t signal, int32_t frame) {
    absolute_values(values, frames.size / 2 + 1, squared);
    float* to = all + signal * bins * frames.count + (frames_first ? frame * bins : frame);
    for (int32_t bin = 0; bin < bins; ++bin, to += step) {
      *to = values[2 * bin > frames.size ? frames.size - bin : bin];
    }
  });
  return {out, work};
}

/// Returns whether the bands of a filter bank are within `bins` frequencies and have `weights` in
/// all; fails the context (InvalidArgument) if not.
bool check_bands(
    KernelRuntimeContext& ctx,
    const Tensor& bands,
    const Tensor& weights,
    int32_t bins);

/**
 * torch_fusion::filtered_spectrogram.out: sums of neighbouring frequencies of a spectrogram with
 * weights, as a mel filter bank has them.
 *
 * `bands` is [filters, 2]: first frequency of each filter, and how many it has. `weights` has those
 * of all filters, one after the other. `out` is [signals, filters, frames], or
 * [signals, frames, filters] if `frames_first`.
 */
template <class S>
std::tuple<Tensor&, Tensor&> filtered_spectrogram_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<Tensor>& window,
    const Tensor& roots,
    const Tensor& bands,
    const Tensor& weights,
    int64_t size,
    int64_t hop,
    int64_t pad,
    bool reflect,
    int64_t count,
    bool squared,
    bool frames_first,
    Tensor& out,
    Tensor& work) {
  Frames frames;
  if (!check_frames<S>(
          ctx, {self, window, roots, size, hop, pad, reflect, count, out, work}, frames) ||
      !check_contiguous<S>(ctx, bands, weights) ||
      !check_bands(ctx, bands, weights, frames.size / 2 + 1)) {
    return {out, work};
  }
  const int32_t filters = bands.sizes()[0];
  const SizesType sizes[] = {
      self.sizes()[0],
      frames_first ? frames.count : filters,
      frames_first ? filters : frames.count};
  if (!shape_out<S>(ctx, out, {sizes, 3})) {
    return {out, work};
  }
  float* const all = out.mutable_data_ptr<float>();
  each_spectrum<S>(ctx, self, frames, [&](float* values, int32_t signal, int32_t frame) {
    absolute_values(values, frames.size / 2 + 1, squared);
    weighted_bands(
        values,
        bands.const_data_ptr<int32_t>(),
        weights.const_data_ptr<float>(),
        filters,
        all + signal * filters * frames.count + (frames_first ? frame * filters : frame),
        frames_first ? 1 : frames.count);
  });
  return {out, work};
}

} // namespace torch::executor::native
