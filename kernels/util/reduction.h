#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/util/checks.h"
#include "kernels/util/elementwise.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/**
 * Elements of a tensor as values of type T, which they are converted to if the
 * tensor has another dtype of Selection S.
 */
template <class S, class T>
class Elements {
 public:
  /// Fails the context (NotSupported) if ok() is going to be false.
  Elements(KernelRuntimeContext& ctx, const Tensor& tensor)
      : data_(tensor.const_data_ptr()), dtype_(tensor.scalar_type()) {
    ok_ = dtype_ == dtype_of<T>();
    if constexpr (kConverts) {
      T none;
      ok_ = ok_ || load_elements<S, T>(dtype_, data_, 0, 0, &none, 0);
    }
    if (!ok_) {
      unsupported_dtype(ctx, dtype_);
    }
  }
  bool ok() const {
    return ok_;
  }
  /// Calls body(const T* elements, int32_t stride, size_t count) for all of
  /// `count` elements from `offset` on, `stride` apart, some at a time.
  template <class Body>
  void run(int32_t offset, int32_t stride, size_t count, Body&& body) const {
    if (!kConverts || dtype_ == dtype_of<T>()) {
      body(static_cast<const T*>(data_) + offset, stride, count);
      return;
    }
    if constexpr (kConverts) {
      T block[kBlock];
      while (count > 0) {
        const size_t part = count < kBlock ? count : kBlock;
        load_elements<S, T>(dtype_, data_, offset, stride, block, part);
        body(block, 1, part);
        offset += stride * static_cast<int32_t>(part);
        count -= part;
      }
    }
  }

 private:
  static constexpr bool kConverts = S::has(Variant::MixedDtypes);
  static constexpr size_t kBlock = 16;

  const void* data_;
  ScalarType dtype_;
  bool ok_;
};

/// Writes results of type T to a tensor, rounded to its dtype if it is a 16-bit
/// float.
template <class S, class T>
class Results {
 public:
  explicit Results(const Tensor& tensor)
      : data_(tensor.mutable_data_ptr()), dtype_(tensor.scalar_type()) {}

  void set(int32_t offset, T value) const {
    if constexpr (has_reduced<S> && std::is_same_v<T, float>) {
      if (dtype_ != ScalarType::Float) {
        store_elements<S, T>(dtype_, data_, static_cast<size_t>(offset), &value, 1);
        return;
      }
    }
    static_cast<T*>(data_)[offset] = value;
  }

 private:
  void* data_;
  ScalarType dtype_;
};

/**
 * A reduction of a tensor over some of its dims: a walk over the dims that stay
 * and one over those that go, whatever the tensors' dim orders.
 */
class Reduction {
 public:
  /**
   * @param[in] dims The dims to reduce, all if empty or none, as in PyTorch.
   * @param[out] out_sizes The result's shape.
   *
   * @returns false after failing the context (InvalidArgument) for a dim out of
   *     range or given twice.
   */
  bool init(
      KernelRuntimeContext& ctx,
      const Tensor& self,
      const std::optional<ArrayRef<int64_t>>& dims,
      bool keepdim,
      Shape& out_sizes);

  /// Fails the context (InvalidArgument) and returns false if there are results
  /// to make of no elements.
  bool check_not_empty(KernelRuntimeContext& ctx) const;

  /// Takes the walks from tensors of the shapes that init() saw and gave.
  void bind(const Tensor& self, const Tensor& out);

  /// Elements that make one result.
  size_t count() const {
    return count_;
  }

  /// Calls body(int32_t first, int32_t result) with the offsets of the first
  /// element of each result, and of the result.
  template <class Body>
  void each_result(Body&& body) {
    do {
      int32_t first = kept_.offset(0);
      int32_t result = kept_.offset(1);
      for (size_t i = kept_.size(); i > 0; --i) {
        body(first, result);
        first += kept_.stride(0);
        result += kept_.stride(1);
      }
    } while (kept_.next());
  }

  /// Calls body(T) for each element of the result that begins at `first`.
  template <class S, class T, class Body>
  void each_element(const Elements<S, T>& elements, int32_t first, Body&& body) {
    do {
      elements.run(
          first + reduced_.offset(0),
          reduced_.stride(0),
          reduced_.size(),
          [&](const T* element, int32_t stride, size_t count) {
            for (; count > 0; --count, element += stride) {
              body(*element);
            }
          });
    } while (reduced_.next());
  }

  /**
   * Reduces to one value each.
   *
   * @param[in] start What every result starts from.
   * @param[in] accumulate Called as accumulate(result, element).
   * @param[in] finish Called with the last result.
   */
  template <class S, class T, class Accumulate, class Finish>
  void run(
      const Elements<S, T>& elements,
      const Results<S, T>& results,
      T start,
      Accumulate&& accumulate,
      Finish&& finish) {
    each_result([&](int32_t first, int32_t result) {
      T value = start;
      each_element(elements, first, [&](T element) { value = accumulate(value, element); });
      results.set(result, finish(value));
    });
  }

 private:
  LoopNest kept_;
  LoopNest reduced_;
  size_t count_;
  // Bit i represents dim i.
  uint32_t gone_;
  bool keepdim_;
};

} // namespace torch::executor::native
