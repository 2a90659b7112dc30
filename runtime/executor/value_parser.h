#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/program.h>

#include "runtime/executor/arena.h"
#include "runtime/schema/program_reader.h"

namespace executorch::runtime::deserialization {

/**
 * Creates the values of a method from its plan, and verifies what it reads.
 *
 * Sizes and dim orders of static tensors, strings, and lists of floating-point numbers and flags
 * stay in the program. A tensor takes a TensorImpl and its strides, unless one of the previous
 * kSharedStrides shapes is the same; a tensor of a bounded dynamic shape takes sizes and strides of
 * its own.
 *
 * It has this name because Program gives a class of this name access to its data.
 */
class TensorParser final {
 public:
  /**
   * @param[in] arena Where values are placed. If it is too small, values are checked and counted,
   * but not made.
   * @param[in] values The method's values, or nullptr if they didn't fit.
   */
  TensorParser(
      const Program* program,
      HierarchicalAllocator* planned_memory,
      flatbuffers::Verifier& verifier,
      internal::Arena& arena,
      EValue* values,
      uint32_t value_count)
      : program_(program),
        planned_memory_(planned_memory),
        verifier_(verifier),
        arena_(arena),
        values_(values),
        value_count_(value_count) {}

  /// Makes one value of a type in `out`, which is raw memory, or nullptr if the values didn't fit.
  Error
  parse(executorch_flatbuffer::KernelTypes type, const flatbuffers::View& content, EValue* out);

  /// Makes a list or a string, as parse() does.
  static Error parse_list(
      TensorParser& parser,
      executorch_flatbuffer::KernelTypes type,
      const flatbuffers::View& content,
      EValue* out);

  /// Finds the data of a constant tensor: constant `buffer_index`, of `nbytes`.
  static Error
  find_constant(const Program* program, uint32_t buffer_index, size_t nbytes, void** data);

  /**
   * Fills a planned tensor that starts with a value of the program's.
   *
   * @param[in] info The tensor's ExtraTensorInfo, or nullptr if it has none.
   */
  static Error load_initial_state(
      const Program* program,
      const flatbuffers::View* info,
      uint32_t buffer_index,
      size_t nbytes,
      void* data);

 private:
  // Strides of an earlier tensor, shared by later ones of the same sizes and dim order.
  struct Strides {
    const int32_t* sizes;
    const uint8_t* dim_order;
    uint32_t dim;
    int32_t* strides;
  };
  static constexpr uint32_t kSharedStrides = 4;

  Error parse_tensor(const flatbuffers::View& tensor, EValue* out);
  Error check_info(const flatbuffers::View& info);
  void place_tensor(
      executorch::aten::ScalarType type,
      const int32_t* sizes,
      const uint8_t* dim_order,
      uint32_t dim,
      TensorShapeDynamism dynamism,
      void* data,
      EValue* out);
  Error find_data(
      const flatbuffers::View& tensor,
      const flatbuffers::View* info,
      size_t nbytes,
      void** data);
  int32_t* strides_of(const int32_t* sizes, const uint8_t* dim_order, uint32_t dim);
  template <typename T>
  Error parse_references(const flatbuffers::View& list, uint32_t index_size, EValue* out);
  Error parse_indices(
      const void* items,
      uint32_t size,
      uint32_t index_size,
      bool allows_none,
      EValue** out);
  template <typename T>
  void place_array(const T* data, size_t size, EValue* out);

  const Program* program_;
  HierarchicalAllocator* planned_memory_;
  flatbuffers::Verifier& verifier_;
  internal::Arena& arena_;
  EValue* values_;
  uint32_t value_count_;
  uint32_t shared_count_ = 0;
  Strides shared_[kSharedStrides];
};

} // namespace executorch::runtime::deserialization
