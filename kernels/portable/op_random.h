#pragma once

#include <optional>
#include <tuple>

#include "kernels/portable/op_full.h"
#include "kernels/portable/random.h"
#include "kernels/soft_double.h"

namespace torch::executor::native {

/// aten::rand.out and randn.out; kernels/portable/random.h documents the numbers.
template <class S, float (&kDraw)()>
Tensor& draw_out(KernelRuntimeContext& ctx, ArrayRef<int64_t> size, Tensor& out) {
  if (shape_of_size<S>(ctx, size, out)) {
    dispatch<StoredFloatTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* to = out.mutable_data_ptr<T>();
      for (auto count = out.numel(); count > 0; --count) {
        *to++ = convert<T>(kDraw());
      }
    });
  }
  return out;
}
template <class S>
constexpr auto& rand_out = draw_out<S, random_uniform>;
template <class S>
constexpr auto& randn_out = draw_out<S, random_normal>;

/// aten::native_dropout.out: in training each element is kept with probability
/// 1 - p, and scaled to keep the mean; otherwise all are.
template <class S>
std::tuple<Tensor&, Tensor&> native_dropout_out(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    double p,
    std::optional<bool> train,
    Tensor& out,
    Tensor& mask) {
  const std::tuple<Tensor&, Tensor&> result{out, mask};
  const float chance = float_of(p);
  KERNEL_CHECK(
      ctx, chance >= 0.0f && chance <= 1.0f, InvalidArgument, result, "p is not in [0, 1]");
  if (!dtype_or_fail(ctx, mask, ScalarType::Bool, "mask") ||
      !check_same_order<S>(ctx, input, out, mask) || !same_dtype_or_fail(ctx, input, out) ||
      !shape_like<S>(ctx, out, input) || !shape_like<S>(ctx, mask, input)) {
    return result;
  }
  const bool is_kept = !train.value_or(true) || chance == 0.0f;
  const float factor = is_kept ? 1.0f : chance < 1.0f ? 1.0f / (1.0f - chance) : 0.0f;
  dispatch<StoredFloatTypes, S>(ctx, input.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = input.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    bool* keep = mask.mutable_data_ptr<bool>();
    for (auto count = input.numel(); count > 0; --count) {
      *keep = is_kept || random_uniform() >= chance;
      *to++ = *keep ? convert<T>(static_cast<C>(*from) * static_cast<C>(factor)) : convert<T>(C(0));
      ++from;
      ++keep;
    }
  });
  return result;
}

} // namespace torch::executor::native
