#pragma once

#include <tuple>
#include <utility>

#include "kernels/util/shape.h"

namespace torch::executor::native::cortex_m {

/// A contiguous tensor [batch, height, width, channels] as [batch, channels, height, width] in
/// channels_last, in the same memory.
class ChannelsLast {
 public:
  explicit ChannelsLast(const Tensor& nhwc);
  ChannelsLast(const ChannelsLast&) = delete;
  ChannelsLast& operator=(const ChannelsLast&) = delete;

  Tensor tensor() {
    return Tensor(&impl_);
  }

 private:
  Tensor::SizesType sizes_[4];
  Tensor::StridesType strides_[4];
  TensorImpl impl_;
};

/// Fails the context and returns false for images that are not contiguous, or not of four dims.
bool check_nhwc(KernelRuntimeContext& ctx, const Tensor& input, const Tensor& out);

/// Calls a kernel for images [batch, height, width, channels] instead of channels_last: the `_nhwc`
/// operators of ExecuTorch 1.5.
template <auto kKernel>
struct Nhwc;

template <
    class... Arguments,
    Tensor& (*kKernel)(KernelRuntimeContext&, const Tensor&, Arguments...)>
struct Nhwc<kKernel> {
  static Tensor& run(KernelRuntimeContext& ctx, const Tensor& input, Arguments... arguments) {
    return call(
        ctx,
        input,
        std::forward_as_tuple(arguments...),
        std::make_index_sequence<sizeof...(Arguments) - 1>());
  }

 private:
  template <class All, size_t... kIndices>
  static Tensor&
  call(KernelRuntimeContext& ctx, const Tensor& input, All all, std::index_sequence<kIndices...>) {
    Tensor& out = std::get<sizeof...(kIndices)>(all);
    if (check_nhwc(ctx, input, out)) {
      ChannelsLast from(input);
      ChannelsLast to(out);
      Tensor result = to.tensor();
      kKernel(ctx, from.tensor(), std::get<kIndices>(all)..., result);
    }
    return out;
  }
};

template <auto kKernel>
constexpr auto& nhwc = Nhwc<kKernel>::run;

} // namespace torch::executor::native::cortex_m
