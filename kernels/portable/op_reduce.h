#pragma once

#include <optional>

#include "kernels/util/dtypes.h"
#include "kernels/util/reduction.h"

namespace torch {
namespace executor {
namespace native {

/// Sums elements of self's dtype in out's dtype; `divide` gives means.
template <class S, class Types>
void sum_or_mean(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<ArrayRef<int64_t>>& dims,
    bool keepdim,
    bool divide,
    Tensor& out) {
  Reduction reduction;
  Shape out_sizes;
  if (!check_contiguous<S>(ctx, out) || !reduction.init(ctx, self, dims, keepdim, out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return;
  }
  dispatch<Types, S>(ctx, out.scalar_type(), [&](auto out_tag) {
    using To = typename decltype(out_tag)::type;
    dispatch<AllTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
      using From = typename decltype(tag)::type;
      reduction.run(
          self.const_data_ptr<From>(),
          out.mutable_data_ptr<To>(),
          To(0),
          [](To sum, From value) {
            return static_cast<To>(
                static_cast<ArithmeticType<To>>(sum) +
                static_cast<ArithmeticType<To>>(convert<To>(value)));
          },
          [&](To sum) {
            if constexpr (std::is_floating_point_v<To>) {
              return divide ? sum / static_cast<To>(reduction.count()) : sum;
            } else {
              return sum;
            }
          });
    });
  });
}

/// aten::mean.out
template <class S>
Tensor& mean_dim_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    bool keepdim,
    std::optional<ScalarType> /*dtype*/,
    Tensor& out) {
  sum_or_mean<S, DtypeList<ScalarType::Float>>(ctx, self, dim, keepdim, true, out);
  return out;
}

/// aten::mean.dtype_out
template <class S>
Tensor& mean_dtype_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ScalarType> /*dtype*/,
    Tensor& out) {
  sum_or_mean<S, DtypeList<ScalarType::Float>>(ctx, self, std::nullopt, false, true, out);
  return out;
}

/// aten::sum.IntList_out
template <class S>
Tensor& sum_dim_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    bool keepdim,
    std::optional<ScalarType> /*dtype*/,
    Tensor& out) {
  sum_or_mean<S, RealTypes>(ctx, self, dim, keepdim, false, out);
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
