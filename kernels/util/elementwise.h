#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "kernels/util/dtypes.h"
#include "kernels/util/load.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/scalars.h"

/**
 * Elementwise operators: an operation is a struct with
 * `T operator()(T...) const`, everything else is here and shared: dtypes,
 * promotion, broadcasting, dim orders. One loop per operation, dtype and shape
 * class is compiled: equal shapes, and any stride if the program broadcasts.
 * Tensors of mixed dtypes are converted block by block and go through the loop
 * for equal shapes.
 */
namespace torch {
namespace executor {
namespace native {

/// How an operator's computing dtype follows from its inputs' common dtype.
enum class Compute : uint8_t {
  /// The common dtype.
  Common,
  /// Float where the common dtype is integral or bool.
  Floating,
};

/// Elements converted at a time for mixed dtypes.
constexpr size_t kBlock = 16;

// ---- inner functions: pointers and sizes only

/// out[i] = op(a[i])
template <class T, class Op>
inline void map(const Op& op, const T* a, T* out, size_t count) {
  if constexpr (std::is_same_v<T, float>) {
    for (; count >= 4; count -= 4) {
      float x0, x1, x2, x3;
      load4_inputs(a, x0, x1, x2, x3);
      store4(out, op(x0), op(x1), op(x2), op(x3));
    }
  }
  for (; count > 0; --count) {
    *out++ = op(*a++);
  }
}

/// out[i] = op(a[i], b[i])
template <class T, class Op>
inline void map(const Op& op, const T* a, const T* b, T* out, size_t count) {
  if constexpr (std::is_same_v<T, float>) {
    for (; count >= 4; count -= 4) {
      float x0, x1, x2, x3, y0, y1, y2, y3;
      load4_inputs(a, x0, x1, x2, x3);
      load4_weights(b, y0, y1, y2, y3);
      store4(out, op(x0, y0), op(x1, y1), op(x2, y2), op(x3, y3));
    }
  }
  for (; count > 0; --count) {
    *out++ = op(*a++, *b++);
  }
}

/// As map(), with a distance of a_stride and b_stride elements between inputs.
template <class T, class Op>
inline void map_strided(const Op& op, const T* a, int32_t a_stride, T* out, size_t count) {
  for (; count > 0; --count, a += a_stride) {
    *out++ = op(*a);
  }
}

template <class T, class Op>
inline void map_strided(
    const Op& op,
    const T* a,
    int32_t a_stride,
    const T* b,
    int32_t b_stride,
    T* out,
    size_t count) {
  for (; count > 0; --count, a += a_stride, b += b_stride) {
    *out++ = op(*a, *b);
  }
}

/// Converts `count` elements of a dtype in Selection S to T; false if it is not
/// in it.
template <class S, class T>
bool load_elements(
    ScalarType dtype,
    const void* data,
    int32_t offset,
    int32_t stride,
    T* out,
    size_t count) {
  return AllTypes::visit<S>(dtype, [&](auto tag) {
    using From = typename decltype(tag)::type;
    const From* from = static_cast<const From*>(data) + offset;
    for (size_t i = 0; i < count; ++i, from += stride) {
      out[i] = convert<T>(*from);
    }
  });
}

template <class S, class T>
bool store_elements(ScalarType dtype, void* data, size_t offset, const T* values, size_t count) {
  return AllTypes::visit<S>(dtype, [&](auto tag) {
    using To = typename decltype(tag)::type;
    To* to = static_cast<To*>(data) + offset;
    for (size_t i = 0; i < count; ++i) {
      to[i] = convert<To>(values[i]);
    }
  });
}

// ---- outer functions

namespace internal {

/// Whether all inputs have the output's shape and dim order, or the image knows
/// of no others and they have as many elements.
template <class S>
bool flat(const Tensor& out, const Tensor* const* inputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if constexpr (S::has(Variant::Broadcast) || S::has(Variant::DynamicShape)) {
      if (!same_sizes(inputs[i]->sizes(), out.sizes())) {
        return false;
      }
    }
    if constexpr (S::has(Variant::DimOrder)) {
      if (!same_dim_order(*inputs[i], out)) {
        return false;
      }
    }
    if (inputs[i]->numel() != out.numel()) {
      return false;
    }
  }
  return true;
}

template <class S>
constexpr bool kNeedsNest =
    S::has(Variant::Broadcast) || S::has(Variant::DimOrder) || S::has(Variant::MixedDtypes);

template <class S, class T, class Op, size_t kInputs>
void run(
    KernelRuntimeContext& ctx,
    const Op& op,
    const Tensor* const (&inputs)[kInputs],
    const Tensor& out) {
  static_assert(kInputs == 1 || kInputs == 2);
  constexpr ScalarType dtype = dtype_of<T>();
  bool same = out.scalar_type() == dtype;
  for (const Tensor* input : inputs) {
    same = same && input->scalar_type() == dtype;
  }
  if (same && flat<S>(out, inputs, kInputs)) {
    const size_t count = static_cast<size_t>(out.numel());
    T* const to = out.mutable_data_ptr<T>();
    if constexpr (kInputs == 1) {
      map(op, inputs[0]->template const_data_ptr<T>(), to, count);
    } else {
      map(op,
          inputs[0]->template const_data_ptr<T>(),
          inputs[1]->template const_data_ptr<T>(),
          to,
          count);
    }
    return;
  }
  if constexpr (kNeedsNest<S>) {
    LoopNest nest;
    if (!nest.init(ctx, out, inputs, kInputs)) {
      return;
    }
    do {
      size_t count = nest.size();
      if (same) {
        T* const to = out.mutable_data_ptr<T>() + nest.out_offset();
        const T* const a = inputs[0]->template const_data_ptr<T>() + nest.offset(0);
        if constexpr (kInputs == 1) {
          map_strided(op, a, nest.stride(0), to, count);
        } else {
          const T* const b = inputs[1]->template const_data_ptr<T>() + nest.offset(1);
          map_strided(op, a, nest.stride(0), b, nest.stride(1), to, count);
        }
      } else if constexpr (S::has(Variant::MixedDtypes)) {
        T buffer[kInputs][kBlock];
        for (size_t done = 0; done < count; done += kBlock) {
          const size_t part = count - done < kBlock ? count - done : kBlock;
          for (size_t i = 0; i < kInputs; ++i) {
            if (!load_elements<S>(
                    inputs[i]->scalar_type(),
                    inputs[i]->const_data_ptr(),
                    nest.offset(i) + static_cast<int32_t>(done) * nest.stride(i),
                    nest.stride(i),
                    buffer[i],
                    part)) {
              return unsupported_dtype(ctx, inputs[i]->scalar_type());
            }
          }
          if constexpr (kInputs == 1) {
            map(op, buffer[0], buffer[0], part);
          } else {
            map(op, buffer[0], buffer[1], buffer[0], part);
          }
          if (!store_elements<S>(
                  out.scalar_type(),
                  out.mutable_data_ptr(),
                  nest.out_offset() + done,
                  buffer[0],
                  part)) {
            return unsupported_dtype(ctx, out.scalar_type());
          }
        }
      } else {
        unsupported_dtype(ctx, out.scalar_type());
        return;
      }
    } while (nest.next());
  } else {
    KERNEL_CHECK(
        ctx, same, InvalidType, , "The tensors' dtypes differ, and mixed dtypes are not linked in");
    KERNEL_CHECK(
        ctx,
        false,
        InvalidArgument,
        ,
        "The tensors' shapes differ, and broadcasting is not linked in");
  }
}

} // namespace internal

/**
 * The dtype an operator computes in, checked against that of `out`: Undefined
 * after failing the context (InvalidType) if the result cannot be written to
 * `out`.
 */
ScalarType
compute_dtype(KernelRuntimeContext& ctx, ScalarType common, Compute compute, ScalarType out);

/**
 * out = op(self) elementwise.
 *
 * @tparam Types The dtypes the operation is defined for.
 * @param[in] make_op Called with a TypeTag<T>, returns the operation on T.
 * @param[in] operand The dtype of a Scalar that takes part in the operation and
 *     so in promotion; self's own if there is none.
 */
template <class S, class Types, Compute kCompute, class MakeOp>
Tensor& unary(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    Tensor& out,
    MakeOp&& make_op,
    std::optional<ScalarType> operand = std::nullopt) {
  if (!shape_like<S>(ctx, out, self)) {
    return out;
  }
  ScalarType dtype = self.scalar_type();
  if constexpr (S::has(Variant::MixedDtypes)) {
    if (operand.has_value()) {
      dtype = promote(dtype, false, *operand, true);
    }
    dtype = compute_dtype(ctx, dtype, kCompute, out.scalar_type());
    if (dtype == ScalarType::Undefined) {
      return out;
    }
  }
  const Tensor* const inputs[] = {&self};
  dispatch<Types, S>(ctx, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T>(ctx, make_op(tag), inputs, out);
  });
  return out;
}

/// out = op(a, b) elementwise, broadcast; parameters as of unary().
template <class S, class Types, Compute kCompute, class MakeOp>
Tensor&
binary(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b, Tensor& out, MakeOp&& make_op) {
  if constexpr (S::has(Variant::DynamicShape)) {
    Shape shape;
    if (!broadcast_sizes(ctx, a.sizes(), b.sizes(), shape) || !resize_out(ctx, out, shape)) {
      return out;
    }
  }
  ScalarType dtype = a.scalar_type();
  if constexpr (S::has(Variant::MixedDtypes)) {
    dtype = compute_dtype(
        ctx,
        promote(dtype, a.dim() == 0, b.scalar_type(), b.dim() == 0),
        kCompute,
        out.scalar_type());
    if (dtype == ScalarType::Undefined) {
      return out;
    }
  }
  const Tensor* const inputs[] = {&a, &b};
  dispatch<Types, S>(ctx, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::run<S, T>(ctx, make_op(tag), inputs, out);
  });
  return out;
}

} // namespace native
} // namespace executor
} // namespace torch
