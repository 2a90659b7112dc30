#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/portable/fft.h"
#include "kernels/util/dtypes.h"

namespace torch::executor::native {

/// The framing of a signal, and the parameters of the transforms.
struct Frames {
  // The length of a signal.
  int32_t samples;
  // The length of a frame, and the distance between two frames.
  int32_t size;
  int32_t hop;
  // Samples before the signal, and as many after it, that frames reach into; then come zeros.
  int32_t pad;
  // They are the signal's, mirrored at its first and last sample; else zeros.
  bool reflect;
  int32_t count;
  // [size]; null: ones.
  const float* window;
  // Arguments of real_fft().
  const float* roots;
  float* work;
};

/// Puts the samples of a frame into work, times the window.
template <class T>
void load_frame(const Frames& frames, const T* signal, int32_t frame) {
  const int32_t start = frame * frames.hop - frames.pad;
  const float* const window = frames.window;
  float* const to = frames.work;
  const int32_t last = frames.samples - 1;
  int32_t i = 0;
  while (i < frames.size) {
    const int32_t at = start + i;
    if (at >= 0 && at <= last) {
      // It goes up to the end of the signal.
      const int32_t end = last - start < frames.size ? last - start + 1 : frames.size;
      const T* from = signal + at;
      if (window == nullptr) {
        for (; i < end; ++i) {
          to[i] = static_cast<float>(*from++);
        }
      }
      for (; i < end; ++i) {
        to[i] = static_cast<float>(*from++) * window[i];
      }
      continue;
    }
    const int32_t mirrored = at < 0 ? -at : 2 * last - at;
    const float sample = frames.reflect ? static_cast<float>(signal[mirrored]) : 0.0f;
    to[i] = window == nullptr ? sample : sample * window[i];
    ++i;
  }
}

/// The discrete Fourier transform of a frame: size / 2 + 1 complex numbers, in work.
template <class T>
float* frame_spectrum(const Frames& frames, const T* signal, int32_t frame) {
  load_frame(frames, signal, frame);
  return real_fft(frames.work, frames.roots, static_cast<uint32_t>(frames.size));
}

/// Computes the squared absolute values of `count` complex numbers, or their absolute values, in
/// place.
void absolute_values(float* spectrum, int32_t count, bool squared);

/**
 * Sums of neighbours with weights.
 *
 * @param[in] bands First neighbour and number of neighbours of each sum.
 * @param[in] weights Of all sums, one after the other.
 * @param[in] step Distance between two sums in `out`.
 */
void weighted_bands(
    const float* values,
    const int32_t* bands,
    const float* weights,
    int32_t count,
    float* out,
    int32_t step);

} // namespace torch::executor::native
