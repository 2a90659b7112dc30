#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/portable_type/tensor_impl.h>
#include <executorch/runtime/core/tag.h>

#include "runtime/backend/has_delegates.h"

namespace executorch {
namespace runtime {
namespace internal {

/**
 * A program that was linked at build time: what Program and Method find in a .pte when they load
 * it, as tables of addresses in flash. tools/pipeline/link writes them in assembler from these
 * structures, whose fields are all words of the core, or halves and bytes in the order declared.
 *
 * Loading such a program copies the descriptors of the tensors that change into RAM and nothing
 * else: constants, their descriptors, numbers, lists and instructions are used where they are. The
 * build has verified all of it.
 */

/// A value: as EValue lies in memory. `payload` of a tensor, list or string is an address.
struct PrelinkedValue {
  union {
    int64_t integer;
    double floating;
    const void* address;
  } payload;
  Tag tag;
};

/// A tensor: as TensorImpl lies in memory. In the template of a tensor in RAM, `data` is not an
/// address but the tensor's place in planned memory.
struct PrelinkedTensor {
  const int32_t* sizes;
  const uint8_t* dim_order;
  const int32_t* strides;
  uintptr_t data;
  ssize_t dim;
  ssize_t numel;
  size_t numel_bound;
  etensor::ScalarType type;
  TensorShapeDynamism dynamism;
  uint8_t device[2];

  /// The place's number of the memory-planned buffer, from 1; 0: the tensor has no planned memory.
  size_t memory() const {
    return data >> kOffsetBits;
  }
  /// The place's offset in the buffer in bytes.
  size_t offset() const {
    return data & ((uintptr_t{1} << kOffsetBits) - 1);
  }
  static constexpr unsigned kOffsetBits = 24;
};

/// A list of integers that don't change: as BoxedEvalueList<int64_t> lies in memory, with the
/// integers where that makes them from other values. kernels/boxed.h knows it by its null pointer.
struct PrelinkedIntList {
  const void* values;
  size_t size;
  const int64_t* items;
};

/// A list in RAM, whose elements are other values.
struct PrelinkedList {
  /// `size` references.
  const uintptr_t* elements;
  uint16_t size;
  /// Tag::ListInt, ListTensor or ListOptionalTensor.
  uint16_t tag;
};

/// What a tensor in planned memory starts with.
struct PrelinkedState {
  const void* data;
  uint32_t nbytes;
  /// The tensor: index of a value in RAM.
  uint32_t value;
};

/// A tensor with a name, such as a mutable buffer.
struct PrelinkedAttribute {
  const char* name;
  uintptr_t value;
};

/// A delegate.
struct PrelinkedDelegate {
  /// The backend's name.
  const char* id;
  /// What the backend made when the model was exported.
  const void* data;
  size_t size;
  /// As CompileSpec lies in memory.
  const void* specs;
  size_t spec_count;
};

/**
 * A method.
 *
 * Its values in RAM are, in this order, the tensors, other values that may change, and lists of
 * such. A reference to a value is the address of one in flash, or kInRam plus the offset in bytes
 * of one in RAM.
 *
 * An instruction is a word with its kind in the lowest two bits, and references: of a kernel call,
 * whose word has the number of arguments from bit 2 on and the index in the kernel table from bit
 * 16 on, the arguments; of a move, target and source; of a jump, the condition, and then the index
 * of the instruction's first word; of a free, the tensor. A call of a delegate is of a free's kind,
 * with kDelegate, the number of arguments from the bit above that on and the delegate's index from
 * bit 16 on.
 */
struct PrelinkedMethod {
  const char* name;
  const uintptr_t* code;
  const PrelinkedTensor* tensors;
  const PrelinkedValue* values;
  const PrelinkedList* lists;
  /// Indices of values in RAM: of the inputs, then of the outputs.
  const uint16_t* inputs;
  /// Bytes that each memory-planned buffer must have.
  const uint32_t* planned_sizes;
  const PrelinkedState* states;
  const PrelinkedAttribute* attributes;
  /// Words of `code`, and number of instructions.
  uint32_t code_size;
  uint32_t instruction_count;
  /// Bytes of the sizes and strides of tensors of dynamic shape, and of the lists, in RAM.
  uint32_t shapes_size;
  uint32_t lists_size;
  uint16_t tensor_count;
  uint16_t value_count;
  uint16_t list_count;
  uint16_t input_count;
  uint16_t output_count;
  uint16_t planned_count;
  uint16_t state_count;
  uint16_t attribute_count;
  /// The most arguments that one call has, and from kDelegateCountsBit on the number of delegates.
  uint32_t counts;

  enum Kind : uintptr_t { kCall = 0, kMove = 1, kJumpFalse = 2, kFree = 3 };
  static constexpr unsigned kCountBit = 2;
  static constexpr unsigned kKernelBit = 16;
  static constexpr uintptr_t kInRam = 1;
  static constexpr uintptr_t kDelegate = 4;
  static constexpr unsigned kDelegateCountBit = 3;
  static constexpr unsigned kDelegateBit = 16;
  static constexpr unsigned kDelegateCountsBit = 16;

  uint32_t argument_count() const {
    return kHasDelegates ? counts & ((1u << kDelegateCountsBit) - 1) : counts;
  }
  uint32_t delegate_count() const {
    return kHasDelegates ? counts >> kDelegateCountsBit : 0;
  }
  const PrelinkedDelegate* delegates() const {
    return reinterpret_cast<const PrelinkedDelegate*>(attributes + attribute_count);
  }
  const uint16_t* outputs() const {
    return inputs + input_count;
  }
};

/// A program, which begins with this.
struct PrelinkedProgram {
  char magic[4];
  uint32_t method_count;
  /// Its own address: a copy elsewhere is no program.
  const PrelinkedProgram* self;
  const PrelinkedMethod* methods;

  static constexpr char kMagic[5] = "TFPL";
};

} // namespace internal
} // namespace runtime
} // namespace executorch
