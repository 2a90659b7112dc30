#include "kernels/portable/op_spectrum.h"

namespace torch::executor::native {

namespace {

/// Returns whether a tensor has so many float32 elements.
bool has_floats(const Tensor& tensor, uint32_t count) {
  return tensor.scalar_type() == ScalarType::Float && static_cast<size_t>(tensor.numel()) == count;
}

} // namespace

bool describe_frames(KernelRuntimeContext& ctx, const FrameArguments& arguments, Frames& frames) {
  // Places in a signal and sizes of work are computed in 32 bits.
  constexpr int64_t kLimit = 0x10000000;
  const auto sizes = arguments.self.sizes();
  const auto is_below = [](int64_t value, int64_t low) { return value >= low && value < kLimit; };
  CHECK_ARGUMENT(
      ctx,
      sizes.size() == 2 && is_below(arguments.size, 1) && is_below(arguments.hop, 1) &&
          is_below(arguments.pad, 0) && is_below(arguments.count, 0) && is_below(sizes[1], 0),
      "self is not [signals, samples], or there are no frames of such size, distance and number");
  // The end of the last frame, counted from the first sample of the signal.
  const int64_t end = arguments.size - arguments.pad + (arguments.count - 1) * arguments.hop;
  const int64_t mirrored = 2 * (static_cast<int64_t>(sizes[1]) - 1);
  CHECK_ARGUMENT(
      ctx,
      end < kLimit && (!arguments.reflect || (arguments.pad < sizes[1] && end <= mirrored + 1)),
      "Frames reach further than the signal that is mirrored");
  const auto size = static_cast<uint32_t>(arguments.size);
  CHECK_ARGUMENT(
      ctx,
      has_floats(arguments.roots, fft_roots(size)) && has_floats(arguments.work, fft_work(size)) &&
          (!arguments.window.has_value() || has_floats(*arguments.window, size)) &&
          arguments.out.scalar_type() == ScalarType::Float,
      "window, roots, work or out are not those of frames of %d samples, float32",
      static_cast<int>(size));
  frames.samples = sizes[1];
  frames.size = static_cast<int32_t>(size);
  frames.hop = static_cast<int32_t>(arguments.hop);
  frames.pad = static_cast<int32_t>(arguments.pad);
  frames.reflect = arguments.reflect;
  frames.count = static_cast<int32_t>(arguments.count);
  frames.window =
      arguments.window.has_value() ? arguments.window->const_data_ptr<float>() : nullptr;
  frames.roots = arguments.roots.const_data_ptr<float>();
  frames.work = arguments.work.mutable_data_ptr<float>();
  return true;
}

bool check_bands(
    KernelRuntimeContext& ctx,
    const Tensor& bands,
    const Tensor& weights,
    int32_t bins) {
  const auto sizes = bands.sizes();
  bool is_right = sizes.size() == 2 && sizes[1] == 2 && bands.scalar_type() == ScalarType::Int &&
      weights.scalar_type() == ScalarType::Float;
  int64_t total = 0;
  if (is_right) {
    const int32_t* band = bands.const_data_ptr<int32_t>();
    for (int32_t i = 0; i < sizes[0]; ++i, band += 2) {
      // A band that begins within the frequencies and is not longer than they are does not
      // overflow.
      is_right =
          is_right && band[0] >= 0 && band[0] <= bins && band[1] >= 0 && band[1] <= bins - band[0];
      total += band[1];
    }
  }
  CHECK_ARGUMENT(
      ctx,
      is_right && total == static_cast<int64_t>(weights.numel()),
      "bands are not [filters, 2] within the frequencies, or have other weights");
  return true;
}

} // namespace torch::executor::native
