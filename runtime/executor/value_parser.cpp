#include "runtime/executor/value_parser.h"

#include <cinttypes>
#include <cstring>

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>

namespace executorch {
namespace runtime {
namespace deserialization {

namespace {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch_flatbuffer::KernelTypes;

// Bytes per element by ScalarType; 0 for the types that the runtime refuses. As the schema's ScalarType.
constexpr uint8_t kElementSizes[] = {1, 1, 2, 4, 8, 2, 4, 8, 0, 0, 0, 1, 1, 1, 4, 2, 1, 1, 0, 0,
                                     0, 0, 2, 1, 1, 1, 1, 2, 4, 8};

// A vector of one dimension has the stride 1, whatever its size.
constexpr int32_t kOne = 1;

template <typename T>
size_t length(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

template <typename T>
const T* data_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? nullptr : vector->data();
}

} // namespace

Error TensorParser::parse(const executorch_flatbuffer::EValue* value, EValue* out) {
  const flatbuffers::Table* content = value->val();
  switch (value->val_type()) {
    case KernelTypes::Null:
      return Error::Ok;
    case KernelTypes::Int:
      new (out) EValue(static_cast<const executorch_flatbuffer::Int*>(content)->int_val());
      return Error::Ok;
    case KernelTypes::Bool:
      new (out) EValue(static_cast<const executorch_flatbuffer::Bool*>(content)->bool_val());
      return Error::Ok;
    case KernelTypes::Double:
      new (out) EValue(static_cast<const executorch_flatbuffer::Double*>(content)->double_val());
      return Error::Ok;
    case KernelTypes::Tensor:
      return parse_tensor(static_cast<const executorch_flatbuffer::Tensor*>(content), out);
    case KernelTypes::String: {
      const auto* text = static_cast<const executorch_flatbuffer::String*>(content)->string_val();
      parse_array(text == nullptr ? "" : text->c_str(), text == nullptr ? 0 : text->size(), out);
      return Error::Ok;
    }
    case KernelTypes::IntList:
      return parse_references<int64_t>(
          static_cast<const executorch_flatbuffer::IntList*>(content)->items(), false, out);
    case KernelTypes::DoubleList: {
      const auto* items = static_cast<const executorch_flatbuffer::DoubleList*>(content)->items();
      parse_array(data_of(items), length(items), out);
      return Error::Ok;
    }
    case KernelTypes::BoolList: {
      const auto* items = static_cast<const executorch_flatbuffer::BoolList*>(content)->items();
      for (size_t i = 0; i < length(items); ++i) {
        ET_CHECK_OR_RETURN_ERROR(
            reinterpret_cast<const uint8_t*>(items->data())[i] <= 1, InvalidProgram, "a flag is neither 0 nor 1");
      }
      parse_array(data_of(items), length(items), out);
      return Error::Ok;
    }
    case KernelTypes::TensorList:
      return parse_references<Tensor>(
          static_cast<const executorch_flatbuffer::TensorList*>(content)->items(), false, out);
    case KernelTypes::OptionalTensorList:
      return parse_references<std::optional<Tensor>>(
          static_cast<const executorch_flatbuffer::OptionalTensorList*>(content)->items(), true, out);
    default:
      return Error::InvalidProgram;
  }
}

template <typename T>
void TensorParser::parse_array(const T* data, size_t size, EValue* out) {
  auto* array = arena_.take<ArrayRef<T>>(1);
  if (array != nullptr) {
    new (out) EValue(new (array) ArrayRef<T>(data, size));
  }
}

template <typename T, typename Item>
Error TensorParser::parse_references(const flatbuffers::Vector<Item>* items, bool allows_none, EValue* out) {
  const size_t size = length(items);
  auto* list = arena_.take<BoxedEvalueList<T>>(1);
  auto* references = arena_.take<EValue*>(size);
  auto* elements = arena_.take<T>(size);
  for (size_t i = 0; i < size; ++i) {
    const Item index = (*items)[static_cast<uint32_t>(i)];
    const bool is_none = allows_none && index == -1;
    ET_CHECK_OR_RETURN_ERROR(
        is_none || (index >= 0 && static_cast<uint64_t>(index) < value_count_),
        InvalidProgram,
        "a list refers to value %d of %zu",
        static_cast<int>(index),
        value_count_);
    if (arena_.fits()) {
      references[i] = is_none ? nullptr : &values_[index];
    }
  }
  if (arena_.fits()) {
    new (out) EValue(new (list) BoxedEvalueList<T>(references, elements, static_cast<int>(size)));
  }
  return Error::Ok;
}

Error TensorParser::parse_tensor(const executorch_flatbuffer::Tensor* tensor, EValue* out) {
  const size_t type = static_cast<size_t>(tensor->scalar_type());
  const size_t element_size = type < sizeof(kElementSizes) ? kElementSizes[type] : 0;
  ET_CHECK_OR_RETURN_ERROR(element_size != 0, NotSupported, "scalar type %zu is not supported", type);
  ET_CHECK_OR_RETURN_ERROR(
      tensor->storage_offset() == 0, NotSupported, "a tensor with a storage offset is not supported");
  const auto dynamism = static_cast<TensorShapeDynamism>(tensor->shape_dynamism());
  ET_CHECK_OR_RETURN_ERROR(
      dynamism == TensorShapeDynamism::STATIC || dynamism == TensorShapeDynamism::DYNAMIC_BOUND,
      NotSupported,
      "a tensor of unbounded dynamic shape is not supported; export the model with an upper bound for each dimension");
  const auto* info = tensor->extra_tensor_info();
  if (info != nullptr) {
    ET_CHECK_OR_RETURN_ERROR(
        info->location() == executorch_flatbuffer::TensorDataLocation::SEGMENT,
        NotSupported,
        "tensor %s is stored outside the program; export it without external constants",
        info->fully_qualified_name() == nullptr ? "" : info->fully_qualified_name()->c_str());
    ET_CHECK_OR_RETURN_ERROR(
        info->device_type() == executorch_flatbuffer::DeviceType::CPU,
        NotSupported,
        "a tensor on device type %d is not supported",
        static_cast<int>(info->device_type()));
  }

  const size_t dim = length(tensor->sizes());
  const int32_t* sizes = data_of(tensor->sizes());
  const uint8_t* dim_order = data_of(tensor->dim_order());
  ET_CHECK_OR_RETURN_ERROR(
      dim <= kTensorDimensionLimit && length(tensor->dim_order()) == dim && validate_dim_order(dim_order, dim),
      InvalidProgram,
      "a tensor has %zu dimensions, or its dim order is no permutation of them",
      dim);
  // What the largest strides span, in bytes, must fit; a size of 0 counts as 1 there.
  size_t span = element_size;
  bool is_empty = false;
  for (size_t i = 0; i < dim; ++i) {
    is_empty |= sizes[i] == 0;
    ET_CHECK_OR_RETURN_ERROR(
        sizes[i] >= 0 && !__builtin_mul_overflow(span, sizes[i] == 0 ? 1u : static_cast<size_t>(sizes[i]), &span) &&
            span <= INT32_MAX,
        InvalidProgram,
        "the size of a tensor is negative or too large");
  }

  void* data = nullptr;
  const Error error = find_data(tensor, is_empty ? 0 : span, &data);
  if (error != Error::Ok) {
    return error;
  }
  ET_CHECK_OR_RETURN_ERROR(
      reinterpret_cast<uintptr_t>(data) % element_size == 0,
      InvalidProgram,
      "the data of a tensor is misaligned for elements of %zu bytes",
      element_size);

  auto* impl = arena_.take<TensorImpl>(1);
  int32_t* own_sizes = const_cast<int32_t*>(sizes);
  int32_t* strides = nullptr;
  if (dynamism == TensorShapeDynamism::STATIC) {
    strides = strides_of(sizes, dim_order, dim);
  } else {
    own_sizes = arena_.take<int32_t>(dim);
    strides = arena_.take<int32_t>(dim);
    if (arena_.fits()) {
      for (size_t i = 0; i < dim; ++i) {
        own_sizes[i] = sizes[i];
      }
      dim_order_to_stride_nocheck(sizes, dim_order, dim, strides);
    }
  }
  if (arena_.fits()) {
    new (impl) TensorImpl(
        static_cast<ScalarType>(type),
        static_cast<ssize_t>(dim),
        own_sizes,
        data,
        const_cast<uint8_t*>(dim_order),
        strides,
        dynamism);
    new (out) EValue(Tensor(impl));
  }
  return Error::Ok;
}

int32_t* TensorParser::strides_of(const int32_t* sizes, const uint8_t* dim_order, size_t dim) {
  if (dim <= 1) {
    return const_cast<int32_t*>(&kOne);
  }
  for (const Strides& other : shared_) {
    if (other.dim == dim && std::memcmp(other.dim_order, dim_order, dim) == 0 &&
        std::memcmp(other.sizes, sizes, dim * sizeof(int32_t)) == 0) {
      return other.strides;
    }
  }
  int32_t* strides = arena_.take<int32_t>(dim);
  if (arena_.fits()) {
    dim_order_to_stride_nocheck(sizes, dim_order, dim, strides);
  }
  shared_[next_shared_] = {sizes, dim_order, dim, strides};
  next_shared_ = (next_shared_ + 1) % kSharedStrides;
  return strides;
}

// Finds where the data of a tensor is: in the program, in planned memory, or nowhere yet (nullptr).
Error TensorParser::find_data(const executorch_flatbuffer::Tensor* tensor, size_t nbytes, void** data) {
  const uint32_t buffer_index = tensor->data_buffer_idx();
  const auto* allocation = tensor->allocation_info();
  if (allocation == nullptr) {
    if (buffer_index != 0) {
      const Result<const void*> constant = program_->get_constant_buffer_data(buffer_index, nbytes);
      if (!constant.ok()) {
        return constant.error();
      }
      *data = const_cast<void*>(*constant);
    }
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN_ERROR(
      planned_memory_ != nullptr, InvalidArgument, "the method needs planned memory, and the memory manager has none");
  const uint32_t id = allocation->memory_id();
  // Memory 0 is that of the constants, which are in the program; the buffers of the memory manager begin with memory 1.
  ET_CHECK_OR_RETURN_ERROR(id >= 1, InvalidProgram, "a tensor is planned into memory %" PRIu32, id);
  const uint64_t offset =
      static_cast<uint64_t>(allocation->memory_offset_high()) << 32 | allocation->memory_offset_low();
  ET_CHECK_OR_RETURN_ERROR(offset <= SIZE_MAX, InvalidProgram, "a tensor is planned beyond the address space");
  const Result<void*> planned =
      planned_memory_->get_offset_address(id - 1, static_cast<size_t>(offset), nbytes);
  if (!planned.ok()) {
    return planned.error();
  }
  *data = *planned;
  if (buffer_index == 0) {
    return Error::Ok;
  }
  const auto* info = tensor->extra_tensor_info();
  const uint64_t segment = info == nullptr ? 0 : info->mutable_data_segments_idx();
  ET_CHECK_OR_RETURN_ERROR(segment <= SIZE_MAX, InvalidProgram, "an initial state lies beyond the address space");
  return program_->load_mutable_subsegment_into(static_cast<size_t>(segment), buffer_index, nbytes, *data);
}

} // namespace deserialization
} // namespace runtime
} // namespace executorch
