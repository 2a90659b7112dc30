#pragma once

#include <optional>

#include "kernels/quantized/affine.h"
#include "kernels/util/indices.h"
#include "kernels/util/scalars.h"

/**
 * Rows of a table of quantized weights (executorch/exir/passes/
 * _quant_patterns_and_replacements.py): bytes; or two weights of 4 bits in a
 * byte, the first the high ones; or four of 2 bits, the first the lowest. Packed
 * weights have their range's lower bound as 0. Each row has a scale, or one for
 * each of some equal groups, and as many zero points or none.
 */
namespace torch::executor::native {

/// The rows that a call of an embedding looks up.
struct QuantizedTable {
  const Tensor* weight;
  const Tensor* scales;
  const Tensor* zero_points;
  // Elements of a row and of a group, and groups of a row.
  int32_t width;
  int32_t group;
  int32_t groups;
  int32_t bits;

  /// Fails the context (InvalidArgument, InvalidType) and returns false if the
  /// tensors do not fit together.
  bool init(
      KernelRuntimeContext& ctx,
      const Tensor& weight,
      const Tensor& scales,
      const std::optional<Tensor>& zero_points,
      int64_t quant_min,
      int64_t quant_max,
      const Tensor& indices,
      int32_t bits,
      Shape& out_sizes);

  /// A weight as it was quantized.
  float weight_at(int32_t row, int32_t column) const;
};

using OptionalDtype = std::optional<ScalarType>;

/// quantized_decomposed::embedding_byte.out, embedding_4bit.out and embedding_2bit.out, and with an
/// argument for the dtype of `out` their dtype_out.
template <class S, int32_t kBits, class... Dtype>
Tensor& quantized_embedding_out(
    KernelRuntimeContext& ctx,
    const Tensor& weight,
    const Tensor& weight_scales,
    const std::optional<Tensor>& weight_zero_points,
    int64_t weight_quant_min,
    int64_t weight_quant_max,
    const Tensor& indices,
    Dtype... dtype,
    Tensor& out) {
  QuantizedTable table;
  Indices rows;
  Shape out_sizes;
  if (!(check_out_dtype(ctx, out, dtype) && ...) || !check_contiguous<S>(ctx, indices, out) ||
      !rows.init(ctx, indices) ||
      !table.init(
          ctx,
          weight,
          weight_scales,
          weight_zero_points,
          weight_quant_min,
          weight_quant_max,
          indices,
          kBits,
          out_sizes) ||
      !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  dispatch<RealFloatTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.mutable_data_ptr<T>();
    // Rows may have groups without elements.
    const int32_t count = table.width == 0 ? 0 : static_cast<int32_t>(indices.numel());
    for (int32_t i = 0; i < count; ++i) {
      const int32_t row = rows.get(ctx, i, weight.sizes()[0], false);
      if (row < 0) {
        return;
      }
      for (int32_t g = 0; g < table.groups; ++g) {
        const size_t parameter = static_cast<size_t>(row * table.groups + g);
        const float scale = number_at(*table.scales, parameter);
        const float zero_point =
            table.zero_points == nullptr ? 0.0f : number_at(*table.zero_points, parameter);
        for (int32_t k = 0; k < table.group; ++k) {
          const float value = (table.weight_at(row, g * table.group + k) - zero_point) * scale;
          // The dtype that it is computed in is that of the scales.
          *to++ = convert<T>(rounded_to(table.scales->scalar_type(), value));
        }
      }
    }
  });
  return out;
}

template <class S>
constexpr auto& embedding_byte_out = quantized_embedding_out<S, 8>;
template <class S>
constexpr auto& embedding_4bit_out = quantized_embedding_out<S, 4>;
template <class S>
constexpr auto& embedding_2bit_out = quantized_embedding_out<S, 2>;
template <class S>
constexpr auto& embedding_byte_dtype_out = quantized_embedding_out<S, 8, OptionalDtype>;
template <class S>
constexpr auto& embedding_4bit_dtype_out = quantized_embedding_out<S, 4, OptionalDtype>;
template <class S>
constexpr auto& embedding_2bit_dtype_out = quantized_embedding_out<S, 2, OptionalDtype>;

} // namespace torch::executor::native
