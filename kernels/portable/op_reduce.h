#pragma once

#include <optional>

#include "kernels/portable/reduce.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/reduction.h"
#include "kernels/util/scalars.h"

/**
 * Reductions over one, some or all dims. What is NaN among the elements makes
 * sums, products, extremes and variances NaN; argmax and its like find the first
 * NaN. Where there is nothing to reduce, sums are 0, products 1, means and
 * variances NaN, and extremes are refused (InvalidArgument).
 */
namespace torch::executor::native {

/// Shapes out and the walks, and calls body(TypeTag<T>()) for the type T that
/// `dtype` is computed in.
template <class S, class Types, class Body>
void reduce(
    KernelRuntimeContext& ctx,
    Reduction& reduction,
    const Shape& out_sizes,
    const Tensor& self,
    const Tensor& out,
    ScalarType dtype,
    Body&& body) {
  if (!shape_out<S>(ctx, out, out_sizes)) {
    return;
  }
  reduction.bind(self, out);
  dispatch<Types, S>(ctx, computed_in<S>(dtype), body);
}

/**
 * Reduces self in out's dtype to one value each. Like all functions with a Reduction, which takes
 * much stack, it is not inlined into functions with other calls.
 */
template <class S, class Types, class Make>
__attribute__((noinline)) Tensor& fold(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<ArrayRef<int64_t>>& dims,
    bool keepdim,
    Tensor& out,
    bool takes_empty,
    Make&& make) {
  Reduction reduction;
  Shape out_sizes;
  if (!reduction.init(ctx, self, dims, keepdim, out_sizes) ||
      (!takes_empty && !reduction.check_not_empty(ctx))) {
    return out;
  }
  reduce<S, Types>(ctx, reduction, out_sizes, self, out, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto operation = make(tag);
    const Elements<S, T> elements(ctx, self);
    if (elements.ok()) {
      reduction.run(
          elements,
          Results<S, T>(out),
          operation.start(),
          [&](T a, T b) { return operation.accumulate(a, b); },
          [&](T a) { return operation.finish(a, reduction.count()); });
    }
  });
  return out;
}

/// aten::sum.IntList_out and mean.out.
template <class S, class Types, template <class> class Operation>
Tensor& fold_dims(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    bool keepdim,
    std::optional<ScalarType> /*dtype*/,
    Tensor& out) {
  return fold<S, Types>(ctx, self, dim, keepdim, out, true, [](auto tag) {
    return Operation<typename decltype(tag)::type>();
  });
}
template <class S>
constexpr auto& sum_dim_out = fold_dims<S, AllTypes, Sum>;
template <class S>
constexpr auto& mean_dim_out = fold_dims<S, FloatTypes, Mean>;

/// aten::mean.dtype_out and prod.out: over all dims.
template <class S, class Types, template <class> class Operation>
Tensor& fold_all(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ScalarType> dtype,
    Tensor& out) {
  return fold_dims<S, Types, Operation>(ctx, self, std::nullopt, false, dtype, out);
}
template <class S>
constexpr auto& mean_dtype_out = fold_all<S, FloatTypes, Mean>;
template <class S>
constexpr auto& prod_out = fold_all<S, AllTypes, Product>;

/// aten::prod.int_out
template <class S>
Tensor& prod_int_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    bool keepdim,
    std::optional<ScalarType> dtype,
    Tensor& out) {
  return fold_dims<S, AllTypes, Product>(
      ctx, self, ArrayRef<int64_t>(&dim, 1), keepdim, dtype, out);
}

/// aten::amax.out and amin.out.
template <class S, bool kLargest>
Tensor& extreme_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    bool keepdim,
    Tensor& out) {
  if (!same_dtype_or_fail(ctx, self, out)) {
    return out;
  }
  return fold<S, AllTypes>(ctx, self, dim, keepdim, out, false, [](auto tag) {
    return Extreme<kLargest, typename decltype(tag)::type>();
  });
}
template <class S>
constexpr auto& amax_out = extreme_out<S, true>;
template <class S>
constexpr auto& amin_out = extreme_out<S, false>;

/// aten::max.unary_out and min.unary_out.
template <class S, bool kLargest>
Tensor& extreme_of_all_out(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  return extreme_out<S, kLargest>(ctx, self, std::nullopt, false, out);
}
template <class S>
constexpr auto& max_unary_out = extreme_of_all_out<S, true>;
template <class S>
constexpr auto& min_unary_out = extreme_of_all_out<S, false>;

/// aten::any.dims_out: to Bool, or from Byte to Byte.
template <class S>
Tensor& any_dims_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dims,
    bool keepdim,
    Tensor& out) {
  KERNEL_CHECK(
      ctx,
      out.scalar_type() == ScalarType::Bool || out.scalar_type() == ScalarType::Byte,
      InvalidType,
      out,
      "out is neither Bool nor Byte");
  Reduction reduction;
  Shape out_sizes;
  if (!reduction.init(ctx, self, dims, keepdim, out_sizes) || !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  reduction.bind(self, out);
  dispatch<AllTypes, S>(ctx, computed_in<S>(self.scalar_type()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Elements<S, T> elements(ctx, self);
    if (!elements.ok()) {
      return;
    }
    // Results of both dtypes are bytes of 0 and 1.
    bool* const results = static_cast<bool*>(out.mutable_data_ptr());
    reduction.each_result([&](int32_t first, int32_t result) {
      bool any = false;
      reduction.each_element(
          elements, first, [&](T element) { any = any || convert<bool>(element); });
      results[result] = any;
    });
  });
  return out;
}

/// aten::any.out
template <class S>
Tensor&
any_out(KernelRuntimeContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return any_dims_out<S>(ctx, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

/// aten::any.all_out
template <class S>
Tensor& any_all_out(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  return any_dims_out<S>(ctx, self, std::nullopt, false, out);
}

/**
 * Finds the first of the largest or smallest elements along a dim, or of all.
 *
 * @param[out] values The elements, of self's dtype; may be null.
 * @param[out] indices Their places, Long; may be null.
 */
template <class S, bool kLargest>
__attribute__((noinline)) void find_extreme(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<int64_t>& dim,
    bool keepdim,
    Tensor* values,
    Tensor* indices) {
  Reduction reduction;
  Shape out_sizes;
  const std::optional<ArrayRef<int64_t>> dims = dim.has_value()
      ? std::optional<ArrayRef<int64_t>>(ArrayRef<int64_t>(&*dim, 1))
      : std::nullopt;
  if (!reduction.init(ctx, self, dims, keepdim, out_sizes) || !reduction.check_not_empty(ctx)) {
    return;
  }
  if (indices != nullptr &&
      ((values != nullptr && !shape_out<S>(ctx, *indices, out_sizes)) ||
       !dtype_or_fail(ctx, *indices, ScalarType::Long, "indices"))) {
    return;
  }
  if (values != nullptr &&
      (!same_dtype_or_fail(ctx, self, *values) ||
       (indices != nullptr && !contiguous_or_fail(ctx, *indices)) ||
       (indices != nullptr && !contiguous_or_fail(ctx, *values)))) {
    return;
  }
  const Tensor& out = values != nullptr ? *values : *indices;
  reduce<S, AllTypes>(ctx, reduction, out_sizes, self, out, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Elements<S, T> elements(ctx, self);
    if (!elements.ok()) {
      return;
    }
    reduction.each_result([&](int32_t first, int32_t result) {
      T best = T();
      int32_t found = 0;
      int32_t index = 0;
      reduction.each_element(elements, first, [&](T element) {
        if (index == 0 || precedes<kLargest>(element, best)) {
          best = element;
          found = index;
        }
        ++index;
      });
      if (values != nullptr) {
        Results<S, T>(*values).set(result, best);
      }
      if (indices != nullptr) {
        indices->mutable_data_ptr<int64_t>()[result] = found;
      }
    });
  });
}

/// aten::argmax.out and argmin.out.
template <class S, bool kLargest>
Tensor& arg_extreme_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<int64_t> dim,
    bool keepdim,
    Tensor& out) {
  find_extreme<S, kLargest>(ctx, self, dim, keepdim, nullptr, &out);
  return out;
}
template <class S>
constexpr auto& argmax_out = arg_extreme_out<S, true>;
template <class S>
constexpr auto& argmin_out = arg_extreme_out<S, false>;

/// aten::max.dim_max and min.dim_min.
template <class S, bool kLargest>
void extreme_dim_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    bool keepdim,
    Tensor& values,
    Tensor& indices) {
  find_extreme<S, kLargest>(
      ctx, self, dim, keepdim, &values, S::has(Variant::Indices) ? &indices : nullptr);
}
template <class S>
constexpr auto& max_dim_out = extreme_dim_out<S, true>;
template <class S>
constexpr auto& min_dim_out = extreme_dim_out<S, false>;

/// Variances, with `correction` less than their number to divide by, and means.
template <class S>
__attribute__((noinline)) void variance(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const std::optional<ArrayRef<int64_t>>& dims,
    float correction,
    bool keepdim,
    Tensor& variances,
    Tensor* means) {
  Reduction reduction;
  Shape out_sizes;
  if (!same_dtype_or_fail(ctx, self, variances) ||
      !reduction.init(ctx, self, dims, keepdim, out_sizes)) {
    return;
  }
  if (means != nullptr &&
      (!same_dtype_or_fail(ctx, self, *means) || !shape_out<S>(ctx, *means, out_sizes) ||
       !contiguous_or_fail(ctx, *means) || !contiguous_or_fail(ctx, variances))) {
    return;
  }
  reduce<S, FloatTypes>(
      ctx, reduction, out_sizes, self, variances, self.scalar_type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Elements<S, T> elements(ctx, self);
        if (!elements.ok()) {
          return;
        }
        const T count = static_cast<T>(reduction.count());
        const T divisor =
            count > static_cast<T>(correction) ? count - static_cast<T>(correction) : T(0);
        reduction.each_result([&](int32_t first, int32_t result) {
          // The deviations from 0 give the mean; the sum of the deviations from that is the
          // rounding error left in it.
          T mean = T(0);
          T deviation = T(0);
          T squares = T(0);
          for (int32_t pass = 0; pass < 2; ++pass) {
            mean = deviation / count;
            deviation = T(0);
            squares = T(0);
            reduction.each_element(elements, first, [&](T element) {
              const T difference = element - mean;
              deviation += difference;
              squares += difference * difference;
            });
          }
          Results<S, T>(variances).set(result, (squares - deviation * deviation / count) / divisor);
          if (means != nullptr) {
            Results<S, T>(*means).set(result, mean);
          }
        });
      });
}

/// Finds the number by which a variance's divisor is less than the number of elements: 1 unless it
/// is given. Fails the context (InvalidArgument) and returns false for an integer beyond 32 bits,
/// where the Selection has no floating-point ones.
template <class S>
bool correction_of(KernelRuntimeContext& ctx, const std::optional<Scalar>& given, float& result) {
  result = 1.0f;
  if (!given.has_value()) {
    return true;
  }
  if constexpr (S::has(Variant::FloatingSymbols)) {
    static_cast<void>(ctx);
    result = scalar_to_float(*given);
  } else {
    const int64_t value = given->to<int64_t>();
    const int32_t number = static_cast<int32_t>(value);
    CHECK_ARGUMENT(ctx, number == value, "correction is out of range");
    result = static_cast<float>(number);
  }
  return true;
}

/// aten::var.correction_out
template <class S>
Tensor& var_correction_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    const std::optional<Scalar>& correction,
    bool keepdim,
    Tensor& out) {
  float less;
  if (correction_of<S>(ctx, correction, less)) {
    variance<S>(ctx, self, dim, less, keepdim, out, nullptr);
  }
  return out;
}

/// aten::var.out
template <class S>
Tensor& var_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    bool unbiased,
    bool keepdim,
    Tensor& out) {
  variance<S>(ctx, self, dim, unbiased ? 1.0f : 0.0f, keepdim, out, nullptr);
  return out;
}

/// aten::var_mean.correction_out
template <class S>
void var_mean_correction_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    std::optional<ArrayRef<int64_t>> dim,
    const std::optional<Scalar>& correction,
    bool keepdim,
    Tensor& out0,
    Tensor& out1) {
  float less;
  if (correction_of<S>(ctx, correction, less)) {
    variance<S>(ctx, self, dim, less, keepdim, out0, &out1);
  }
}

/// aten::cumsum.out: sums in out's dtype up to each element of a dim.
template <class S>
Tensor& cumsum_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    std::optional<ScalarType> /*dtype*/,
    Tensor& out) {
  // The walk of a reduction over the other dims, whose elements start a run of the dim each.
  const int32_t index = normalize_dim(ctx, dim, static_cast<int32_t>(self.dim()));
  if (index < 0 || !shape_out<S>(ctx, out, self.sizes())) {
    return out;
  }
  int32_t strides[2][kMaxDims] = {};
  strides_of(self, strides[0]);
  strides_of(out, strides[1]);
  Shape others(self.sizes());
  const size_t length =
      others.dims == 0 ? 1 : static_cast<size_t>(others.sizes[static_cast<size_t>(index)]);
  if (others.dims > 0 && length > 0) {
    others.sizes[index] = 1;
  }
  const int32_t* const both[] = {strides[0], strides[1]};
  LoopNest nest;
  nest.init(others.sizes, both, 2, others.dims);
  dispatch<AllTypes, S>(ctx, computed_in<S>(out.scalar_type()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Elements<S, T> elements(ctx, self);
    if (!elements.ok()) {
      return;
    }
    const Results<S, T> results(out);
    const Sum<T> operation;
    do {
      for (size_t i = 0; i < nest.size(); ++i) {
        const int32_t start = static_cast<int32_t>(i);
        int32_t to = nest.offset(1) + start * nest.stride(1);
        T sum = T(0);
        elements.run(
            nest.offset(0) + start * nest.stride(0),
            strides[0][index],
            length,
            [&](const T* element, int32_t stride, size_t count) {
              for (; count > 0; --count, element += stride) {
                sum = operation.accumulate(sum, *element);
                results.set(to, sum);
                to += strides[1][index];
              }
            });
      }
    } while (nest.next());
  });
  return out;
}

} // namespace torch::executor::native
