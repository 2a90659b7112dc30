#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/util/checks.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

namespace torch {
namespace executor {
namespace native {

/**
 * A reduction of a tensor over some of its dims: a walk over the dims that stay
 * and one over those that go.
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

  /// Elements that make one result.
  size_t count() const {
    return count_;
  }

  /**
   * Reduces contiguous or permuted `in` into contiguous `out`.
   *
   * @param[in] start What every result starts from.
   * @param[in] accumulate Called as accumulate(result, element).
   * @param[in] finish Called with the last result.
   */
  template <class From, class To, class Accumulate, class Finish>
  void run(const From* in, To* out, To start, Accumulate&& accumulate, Finish&& finish) {
    do {
      const From* first = in + kept_.offset(0);
      To* to = out + kept_.out_offset();
      for (size_t i = kept_.size(); i > 0; --i, first += kept_.stride(0)) {
        To result = start;
        do {
          const From* element = first + reduced_.offset(0);
          const int32_t stride = reduced_.stride(0);
          for (size_t n = reduced_.size(); n > 0; --n, element += stride) {
            result = accumulate(result, *element);
          }
        } while (reduced_.next());
        *to++ = finish(result);
      }
    } while (kept_.next());
  }

 private:
  LoopNest kept_;
  LoopNest reduced_;
  size_t count_;
};

} // namespace native
} // namespace executor
} // namespace torch
