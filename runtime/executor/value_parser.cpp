#include "runtime/executor/value_parser.h"

#include <cinttypes>

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>

#include "runtime/core/tensor_view.h"
#include "runtime/executor/optional_parts.h"

namespace executorch::runtime::deserialization {

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch_flatbuffer::KernelTypes;
using flatbuffers::length;
using flatbuffers::View;

// Bytes per element by ScalarType; 0 for the types that the runtime refuses. As the schema's
// ScalarType.
constexpr uint8_t kElementSizes[] = {1, 1, 2, 4, 8, 2, 4, 8, 0, 0, 0, 1, 1, 1, 4,
                                     2, 1, 1, 0, 0, 0, 0, 2, 1, 1, 1, 1, 2, 4, 8};

// A vector of one dimension has the stride 1, whatever its size.
constexpr int32_t kOne = 1;

// All lists, and a string, are the only field of their table.
constexpr uint32_t kItems = executorch_flatbuffer::IntList::VT_ITEMS;
static_assert(
    executorch_flatbuffer::String::VT_STRING_VAL == kItems &&
    executorch_flatbuffer::BoolList::VT_ITEMS == kItems &&
    executorch_flatbuffer::DoubleList::VT_ITEMS == kItems &&
    executorch_flatbuffer::TensorList::VT_ITEMS == kItems &&
    executorch_flatbuffer::OptionalTensorList::VT_ITEMS == kItems);

// tools/pipeline/link knows these sizes.
static_assert(sizeof(EValue) == 16 && alignof(EValue) == 8);
static_assert(
    sizeof(TensorImpl) ==
    (7 * sizeof(void*) + 4 + sizeof(void*) - 1) / sizeof(void*) * sizeof(void*));
static_assert(sizeof(ArrayRef<char>) == 2 * sizeof(void*));
static_assert(sizeof(BoxedEvalueList<int64_t>) == 3 * sizeof(void*));
static_assert(
    sizeof(Tensor) == sizeof(void*) && sizeof(std::optional<Tensor>) == 2 * sizeof(void*));

// Makes a number where there is room for it.
template <typename T>
void place(EValue* out, T value) {
  if (out != nullptr) {
    new (out) EValue(value);
  }
}

} // namespace

Error TensorParser::parse(KernelTypes type, const View& content, EValue* out) {
  switch (type) {
    case KernelTypes::Null:
      if (out != nullptr) {
        new (out) EValue();
      }
      return Error::Ok;
    case KernelTypes::Int:
      place(out, content.scalar<int64_t>(executorch_flatbuffer::Int::VT_INT_VAL));
      return Error::Ok;
    case KernelTypes::Bool:
      place(out, content.scalar<bool>(executorch_flatbuffer::Bool::VT_BOOL_VAL));
      return Error::Ok;
    case KernelTypes::Double:
      place(out, content.scalar<double>(executorch_flatbuffer::Double::VT_DOUBLE_VAL));
      return Error::Ok;
    case KernelTypes::Tensor:
      return parse_tensor(content, out);
    default:
      TORCH_FUSION_CHECK_PART(parse_list);
      return internal::kOptionalParts.parse_list(*this, type, content, out);
  }
}

Error TensorParser::parse_list(
    TensorParser& parser,
    KernelTypes type,
    const View& content,
    EValue* out) {
  switch (type) {
    case KernelTypes::String: {
      const auto* text = parser.verifier_.string(content, kItems);
      parser.place_array(
          text == nullptr ? nullptr : text->c_str(), text == nullptr ? 0 : text->size(), out);
      return Error::Ok;
    }
    case KernelTypes::IntList:
      return parser.parse_references<int64_t>(content, sizeof(int64_t), out);
    case KernelTypes::DoubleList: {
      const auto* items = parser.verifier_.aligned_vector<double>(content, kItems);
      parser.place_array(items == nullptr ? nullptr : items->data(), length(items), out);
      return Error::Ok;
    }
    case KernelTypes::BoolList: {
      const auto* items = parser.verifier_.vector<uint8_t>(content, kItems);
      for (uint32_t i = 0; i < length(items); ++i) {
        ET_CHECK_OR_RETURN_ERROR((*items)[i] <= 1, InvalidProgram, "a flag is neither 0 nor 1");
      }
      parser.place_array(
          items == nullptr ? nullptr : reinterpret_cast<const bool*>(items->data()),
          length(items),
          out);
      return Error::Ok;
    }
    case KernelTypes::TensorList:
      return parser.parse_references<Tensor>(content, sizeof(int32_t), out);
    case KernelTypes::OptionalTensorList:
      return parser.parse_references<std::optional<Tensor>>(content, sizeof(int32_t), out);
    default:
      ET_LOG(Error, "unknown kind of value %u", static_cast<unsigned>(type));
      return Error::InvalidProgram;
  }
}

template <typename T>
void TensorParser::place_array(const T* data, size_t size, EValue* out) {
  auto* array = arena_.take<ArrayRef<T>>(1);
  if (arena_.fits()) {
    new (out) EValue(new (array) ArrayRef<T>(data, size));
  }
}

// Finds the values that a list refers to. `out` is nullptr if there is no room for them.
[[gnu::noinline]] Error TensorParser::parse_indices(
    const void* items,
    uint32_t size,
    uint32_t index_size,
    bool allows_none,
    EValue** out) {
  // An absent list has no items, and no address.
  const uint8_t* item = static_cast<const uint8_t*>(items) + (size == 0 ? 0 : sizeof(uint32_t));
  for (uint32_t i = 0; i < size; ++i, item += index_size) {
    uint32_t index = flatbuffers::load<uint32_t>(item);
    if (index_size == sizeof(uint64_t) &&
        flatbuffers::load<uint32_t>(item + sizeof(uint32_t)) != 0) {
      index = UINT32_MAX;
    }
    const bool is_none = allows_none && index == UINT32_MAX;
    ET_CHECK_OR_RETURN_ERROR(
        is_none || index < value_count_,
        InvalidProgram,
        "a list refers to value %" PRId32 " of %" PRIu32,
        static_cast<int32_t>(index),
        value_count_);
    if (out != nullptr) {
      out[i] = is_none ? nullptr : &values_[index];
    }
  }
  return Error::Ok;
}

template <typename T>
[[gnu::noinline]] Error
TensorParser::parse_references(const View& view, uint32_t index_size, EValue* out) {
  const void* items = index_size == sizeof(int64_t)
      ? static_cast<const void*>(verifier_.vector<int64_t>(view, kItems))
      : verifier_.vector<int32_t>(view, kItems);
  const uint32_t size = items == nullptr ? 0 : flatbuffers::load<uint32_t>(items);
  auto* list = arena_.take<BoxedEvalueList<T>>(1);
  auto* references = arena_.take<EValue*>(size);
  auto* elements = arena_.take<T>(size);
  const bool fits = arena_.fits();
  const Error error = parse_indices(
      items,
      size,
      index_size,
      std::is_same_v<T, std::optional<Tensor>>,
      fits ? references : nullptr);
  if (error == Error::Ok && fits) {
    new (out) EValue(new (list) BoxedEvalueList<T>(references, elements, static_cast<int>(size)));
  }
  return error;
}

Error TensorParser::parse_tensor(const View& tensor, EValue* out) {
  using Fields = executorch_flatbuffer::Tensor;
  const uint32_t type = tensor.scalar<uint8_t>(Fields::VT_SCALAR_TYPE);
  const uint32_t element_size = type < sizeof(kElementSizes) ? kElementSizes[type] : 0;
  ET_CHECK_OR_RETURN_ERROR(
      element_size != 0, NotSupported, "scalar type %" PRIu32 " is not supported", type);
  ET_CHECK_OR_RETURN_ERROR(
      tensor.scalar<int32_t>(Fields::VT_STORAGE_OFFSET) == 0,
      NotSupported,
      "a tensor with a storage offset is not supported");
  const auto dynamism = tensor.scalar<TensorShapeDynamism>(Fields::VT_SHAPE_DYNAMISM);
  ET_CHECK_OR_RETURN_ERROR(
      dynamism == TensorShapeDynamism::STATIC || dynamism == TensorShapeDynamism::DYNAMIC_BOUND,
      NotSupported,
      "a tensor of unbounded dynamic shape is not supported; export the model with an upper bound "
      "for each dimension");
  View info;
  // Few tensors have this table.
  const bool has_info = tensor.field(Fields::VT_EXTRA_TENSOR_INFO, sizeof(uint32_t)) != nullptr &&
      verifier_.open(tensor, Fields::VT_EXTRA_TENSOR_INFO, info);
  const Error refused = has_info ? check_info(info) : Error::Ok;
  if (refused != Error::Ok) {
    return refused;
  }

  static constexpr uint16_t kVectors[] = {
      flatbuffers::Verifier::kind<int32_t>(Fields::VT_SIZES),
      flatbuffers::Verifier::kind<uint8_t>(Fields::VT_DIM_ORDER)};
  const void* vectors[] = {nullptr, nullptr};
  verifier_.vectors(tensor, kVectors, 2, vectors);
  const auto* sizes_vector = static_cast<const flatbuffers::Vector<int32_t>*>(vectors[0]);
  const auto* order_vector = static_cast<const flatbuffers::Vector<uint8_t>*>(vectors[1]);
  const uint32_t dim = length(sizes_vector);
  const int32_t* sizes = dim == 0 ? nullptr : sizes_vector->data();
  const uint8_t* dim_order = length(order_vector) == 0 ? nullptr : order_vector->data();
  ET_CHECK_OR_RETURN_ERROR(
      dim <= kTensorDimensionLimit && length(order_vector) == dim &&
          reinterpret_cast<uintptr_t>(sizes) % alignof(int32_t) == 0,
      InvalidProgram,
      "a tensor of %" PRIu32 " dimensions has a dim order of %" PRIu32 ", or misaligned sizes",
      dim,
      length(order_vector));
  // The span of the largest stride, in bytes, must fit; a size of 0 counts as 1 there.
  uint32_t span = element_size;
  bool is_empty = false;
  // A bit for each dimension in the dim order; an invalid one leaves another bit unset.
  uint32_t seen = 0;
  for (uint32_t i = 0; i < dim; ++i) {
    seen |= dim_order[i] < kTensorDimensionLimit ? 1u << dim_order[i] : 0;
    const int32_t size = sizes[i];
    is_empty |= size == 0;
    const uint64_t product =
        static_cast<uint64_t>(span) * static_cast<uint32_t>(size == 0 ? 1 : size);
    // So is that of a negative size.
    ET_CHECK_OR_RETURN_ERROR(
        product <= INT32_MAX, InvalidProgram, "the size of a tensor is negative or too large");
    span = static_cast<uint32_t>(product);
  }
  ET_CHECK_OR_RETURN_ERROR(
      !is_empty || span <= internal::kMaxEmptySpan,
      InvalidProgram,
      "a tensor without elements has other sizes that are too large");
  ET_CHECK_OR_RETURN_ERROR(
      seen == (1u << dim) - 1,
      InvalidProgram,
      "the dim order of a tensor is no permutation of its dimensions");

  void* data = nullptr;
  const Error error = find_data(tensor, has_info ? &info : nullptr, is_empty ? 0 : span, &data);
  if (error != Error::Ok) {
    return error;
  }
  ET_CHECK_OR_RETURN_ERROR(
      (reinterpret_cast<uintptr_t>(data) & (element_size - 1)) == 0,
      InvalidProgram,
      "the data of a tensor is misaligned for elements of %" PRIu32 " bytes",
      element_size);

  place_tensor(static_cast<ScalarType>(type), sizes, dim_order, dim, dynamism, data, out);
  return Error::Ok;
}

[[gnu::always_inline]] inline Error TensorParser::check_info(const View& info) {
  using executorch_flatbuffer::ExtraTensorInfo;
  ET_UNUSED const auto* name = verifier_.string(info, ExtraTensorInfo::VT_FULLY_QUALIFIED_NAME);
  ET_CHECK_OR_RETURN_ERROR(
      info.scalar<uint8_t>(ExtraTensorInfo::VT_LOCATION) ==
          static_cast<uint8_t>(executorch_flatbuffer::TensorDataLocation::SEGMENT),
      NotSupported,
      "tensor %s is stored outside the program; export it without external constants",
      name == nullptr ? "" : name->c_str());
  ET_CHECK_OR_RETURN_ERROR(
      info.scalar<uint8_t>(ExtraTensorInfo::VT_DEVICE_TYPE) ==
          static_cast<uint8_t>(executorch_flatbuffer::DeviceType::CPU),
      NotSupported,
      "tensor %s is on a device other than the CPU",
      name == nullptr ? "" : name->c_str());
  return Error::Ok;
}

[[gnu::always_inline]] inline void TensorParser::place_tensor(
    ScalarType type,
    const int32_t* sizes,
    const uint8_t* dim_order,
    uint32_t dim,
    TensorShapeDynamism dynamism,
    void* data,
    EValue* out) {
  auto* impl = arena_.take<TensorImpl>(1);
  int32_t* own_sizes = const_cast<int32_t*>(sizes);
  int32_t* strides = nullptr;
  if (dynamism == TensorShapeDynamism::STATIC) {
    strides = strides_of(sizes, dim_order, dim);
  } else {
    own_sizes = arena_.take<int32_t>(dim);
    strides = arena_.take<int32_t>(dim);
    if (arena_.fits()) {
      for (uint32_t i = 0; i < dim; ++i) {
        own_sizes[i] = sizes[i];
      }
      dim_order_to_stride_nocheck(sizes, dim_order, dim, strides);
    }
  }
  if (arena_.fits()) {
    new (impl) TensorImpl(
        type,
        static_cast<ssize_t>(dim),
        own_sizes,
        data,
        const_cast<uint8_t*>(dim_order),
        strides,
        dynamism);
    new (out) EValue(Tensor(impl));
  }
}

int32_t* TensorParser::strides_of(const int32_t* sizes, const uint8_t* dim_order, uint32_t dim) {
  if (dim <= 1) {
    return const_cast<int32_t*>(&kOne);
  }
  const uint32_t known = shared_count_ < kSharedStrides ? shared_count_ : kSharedStrides;
  for (uint32_t i = 0; i < known; ++i) {
    const Strides& other = shared_[i];
    if (other.dim == dim) {
      uint32_t j = 0;
      while (j < dim && other.sizes[j] == sizes[j] && other.dim_order[j] == dim_order[j]) {
        ++j;
      }
      if (j == dim) {
        return other.strides;
      }
    }
  }
  int32_t* strides = arena_.take<int32_t>(dim);
  if (arena_.fits()) {
    dim_order_to_stride_nocheck(sizes, dim_order, dim, strides);
  }
  shared_[shared_count_++ % kSharedStrides] = {sizes, dim_order, dim, strides};
  return strides;
}

// Finds where the data of a tensor is: in the program, in planned memory, or nowhere yet (nullptr).
Error TensorParser::find_data(const View& tensor, const View* info, size_t nbytes, void** data) {
  using executorch_flatbuffer::AllocationDetails;
  using Fields = executorch_flatbuffer::Tensor;
  const uint32_t buffer_index = tensor.scalar<uint32_t>(Fields::VT_DATA_BUFFER_IDX);
  View allocation;
  if (!verifier_.open(tensor, Fields::VT_ALLOCATION_INFO, allocation)) {
    if (buffer_index != 0) {
      TORCH_FUSION_CHECK_PART(find_constant);
      return internal::kOptionalParts.find_constant(program_, buffer_index, nbytes, data);
    }
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN_ERROR(
      planned_memory_ != nullptr,
      InvalidArgument,
      "the method needs planned memory, and the memory manager has none");
  const uint32_t id = allocation.scalar<uint32_t>(AllocationDetails::VT_MEMORY_ID);
  // Memory 0 is that of the constants, which are in the program; the buffers of the memory manager
  // begin with memory 1.
  ET_CHECK_OR_RETURN_ERROR(id >= 1, InvalidProgram, "a tensor is planned into memory %" PRIu32, id);
  const uint64_t offset =
      static_cast<uint64_t>(allocation.scalar<uint32_t>(AllocationDetails::VT_MEMORY_OFFSET_HIGH))
          << 32 |
      allocation.scalar<uint32_t>(AllocationDetails::VT_MEMORY_OFFSET_LOW);
  ET_CHECK_OR_RETURN_ERROR(
      offset <= SIZE_MAX, InvalidProgram, "a tensor is planned beyond the address space");
  const Result<void*> planned =
      planned_memory_->get_offset_address(id - 1, static_cast<size_t>(offset), nbytes);
  if (!planned.ok()) {
    return planned.error();
  }
  *data = *planned;
  if (buffer_index == 0) {
    return Error::Ok;
  }
  TORCH_FUSION_CHECK_PART(load_initial_state);
  return internal::kOptionalParts.load_initial_state(program_, info, buffer_index, nbytes, *data);
}

Error TensorParser::find_constant(
    const Program* program,
    uint32_t buffer_index,
    size_t nbytes,
    void** data) {
  const Result<const void*> constant = program->get_constant_buffer_data(buffer_index, nbytes);
  if (!constant.ok()) {
    return constant.error();
  }
  *data = const_cast<void*>(*constant);
  return Error::Ok;
}

Error TensorParser::load_initial_state(
    const Program* program,
    const View* info,
    uint32_t buffer_index,
    size_t nbytes,
    void* data) {
  const uint64_t segment = info == nullptr
      ? 0
      : info->scalar<uint64_t>(
            executorch_flatbuffer::ExtraTensorInfo::VT_MUTABLE_DATA_SEGMENTS_IDX);
  ET_CHECK_OR_RETURN_ERROR(
      segment <= SIZE_MAX, InvalidProgram, "an initial state lies beyond the address space");
  return program->load_mutable_subsegment_into(
      static_cast<size_t>(segment), buffer_index, nbytes, data);
}

} // namespace executorch::runtime::deserialization
