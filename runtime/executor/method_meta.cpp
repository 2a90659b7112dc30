#include <executorch/runtime/executor/method_meta.h>

#include <cinttypes>
#include <cstring>

#include "runtime/schema/program_reader.h"

namespace executorch::runtime {

namespace {

using executorch::aten::ScalarType;
using executorch_flatbuffer::ExecutionPlan;
using executorch_flatbuffer::KernelTypes;
using flatbuffers::length;
using flatbuffers::Vector;

template <typename T>
Span<const T> span(const Vector<T>* vector) {
  return vector == nullptr ? Span<const T>() : Span<const T>(vector->data(), vector->size());
}

const executorch_flatbuffer::EValue*
value_at(const ExecutionPlan* plan, const Vector<int32_t>* indices, size_t index) {
  if (index >= length(indices)) {
    ET_LOG(Error, "no value %zu of %" PRIu32, index, length(indices));
    return nullptr;
  }
  return (*plan->values())[static_cast<uint32_t>((*indices)[static_cast<uint32_t>(index)])];
}

Result<Tag> tag_of(const executorch_flatbuffer::EValue* value) {
  if (value == nullptr) {
    return Error::InvalidArgument;
  }
  switch (value->val_type()) {
    case KernelTypes::Null:
      return Tag::None;
    case KernelTypes::Int:
      return Tag::Int;
    case KernelTypes::Double:
      return Tag::Double;
    case KernelTypes::Bool:
      return Tag::Bool;
    case KernelTypes::String:
      return Tag::String;
    case KernelTypes::Tensor:
      return Tag::Tensor;
    case KernelTypes::IntList:
      return Tag::ListInt;
    case KernelTypes::DoubleList:
      return Tag::ListDouble;
    case KernelTypes::BoolList:
      return Tag::ListBool;
    case KernelTypes::TensorList:
      return Tag::ListTensor;
    case KernelTypes::OptionalTensorList:
      return Tag::ListOptionalTensor;
    default:
      return Error::Internal;
  }
}

const executorch_flatbuffer::Tensor* tensor_of(const executorch_flatbuffer::EValue* value) {
  if (value == nullptr || value->val_type() != KernelTypes::Tensor) {
    ET_LOG(Error, "the value is no tensor");
    return nullptr;
  }
  return static_cast<const executorch_flatbuffer::Tensor*>(value->val());
}

std::string_view name_of(const executorch_flatbuffer::Tensor* tensor) {
  const auto* info = tensor->extra_tensor_info();
  const auto* name = info == nullptr ? nullptr : info->fully_qualified_name();
  return name == nullptr ? std::string_view() : name->view();
}

// The tensor of a method's attribute: one with a name. nullptr if there are fewer; *count is how
// many there are up to it.
const executorch_flatbuffer::Tensor*
attribute(const ExecutionPlan* plan, size_t index, size_t* count) {
  *count = 0;
  for (uint32_t i = 0; i < length(plan->values()); ++i) {
    const auto* value = (*plan->values())[i];
    if (value->val_type() == KernelTypes::Tensor) {
      const auto* tensor = static_cast<const executorch_flatbuffer::Tensor*>(value->val());
      if (!name_of(tensor).empty() && (*count)++ == index) {
        return tensor;
      }
    }
  }
  return nullptr;
}

} // namespace

MethodMeta::MethodMeta(const ExecutionPlan* s_plan) : s_plan_(s_plan) {}

const char* MethodMeta::name() const {
  return s_plan_->name()->c_str();
}

size_t MethodMeta::num_inputs() const {
  return length(s_plan_->inputs());
}

Result<Tag> MethodMeta::input_tag(size_t index) const {
  return tag_of(value_at(s_plan_, s_plan_->inputs(), index));
}

namespace {

// Creates the arguments of TensorInfo::create(), which only MethodMeta may access.
template <typename Create>
Result<TensorInfo> tensor_meta(const executorch_flatbuffer::Tensor* tensor, Create create) {
  if (tensor == nullptr) {
    return Error::InvalidArgument;
  }
  return create(
      span(tensor->sizes()),
      span(tensor->dim_order()),
      static_cast<ScalarType>(tensor->scalar_type()),
      tensor->allocation_info() != nullptr || tensor->data_buffer_idx() != 0,
      name_of(tensor));
}

} // namespace

Result<TensorInfo> MethodMeta::input_tensor_meta(size_t index) const {
  return tensor_meta(tensor_of(value_at(s_plan_, s_plan_->inputs(), index)), TensorInfo::create);
}

size_t MethodMeta::num_outputs() const {
  return length(s_plan_->outputs());
}

Result<Tag> MethodMeta::output_tag(size_t index) const {
  return tag_of(value_at(s_plan_, s_plan_->outputs(), index));
}

Result<TensorInfo> MethodMeta::output_tensor_meta(size_t index) const {
  return tensor_meta(tensor_of(value_at(s_plan_, s_plan_->outputs(), index)), TensorInfo::create);
}

size_t MethodMeta::num_attributes() const {
  size_t count = 0;
  attribute(s_plan_, SIZE_MAX, &count);
  return count;
}

Result<TensorInfo> MethodMeta::attribute_tensor_meta(size_t index) const {
  size_t count = 0;
  return tensor_meta(attribute(s_plan_, index, &count), TensorInfo::create);
}

size_t MethodMeta::num_memory_planned_buffers() const {
  // The first one is reserved for the constants, which are in the program.
  const size_t count = length(s_plan_->non_const_buffer_sizes());
  return count == 0 ? 0 : count - 1;
}

Result<int64_t> MethodMeta::memory_planned_buffer_size(size_t index) const {
  ET_CHECK_OR_RETURN_ERROR(
      index < num_memory_planned_buffers(), InvalidArgument, "no memory-planned buffer %zu", index);
  return (*s_plan_->non_const_buffer_sizes())[static_cast<uint32_t>(index) + 1];
}

Result<etensor::Device> MethodMeta::memory_planned_buffer_device(size_t index) const {
  ET_CHECK_OR_RETURN_ERROR(
      index < num_memory_planned_buffers(), InvalidArgument, "no memory-planned buffer %zu", index);
  const auto* devices = s_plan_->non_const_buffer_device();
  for (uint32_t i = 0; i < length(devices); ++i) {
    const auto* device = (*devices)[i];
    if (device->buffer_idx() >= 0 && static_cast<size_t>(device->buffer_idx()) == index + 1) {
      return etensor::Device(
          static_cast<etensor::DeviceType>(device->device_type()), device->device_index());
    }
  }
  return etensor::Device(etensor::DeviceType::CPU, 0);
}

bool MethodMeta::uses_backend(const char* backend_name) const {
  ET_CHECK_MSG(backend_name != nullptr, "no backend name");
  for (uint32_t i = 0; i < length(s_plan_->delegates()); ++i) {
    if (std::strcmp((*s_plan_->delegates())[i]->id()->c_str(), backend_name) == 0) {
      return true;
    }
  }
  return false;
}

size_t MethodMeta::num_backends() const {
  return length(s_plan_->delegates());
}

Result<const char*> MethodMeta::get_backend_name(size_t index) const {
  ET_CHECK_OR_RETURN_ERROR(index < num_backends(), InvalidArgument, "no backend %zu", index);
  return (*s_plan_->delegates())[static_cast<uint32_t>(index)]->id()->c_str();
}

size_t MethodMeta::num_instructions() const {
  size_t count = 0;
  for (uint32_t i = 0; i < length(s_plan_->chains()); ++i) {
    count += length((*s_plan_->chains())[i]->instructions());
  }
  return count;
}

} // namespace executorch::runtime
