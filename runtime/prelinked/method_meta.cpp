#include <executorch/runtime/executor/method_meta.h>

#include <cinttypes>
#include <cstring>

#include "runtime/prelinked/plan.h"

namespace executorch {
namespace runtime {

namespace {

using internal::prelinked_method;
using internal::PrelinkedMethod;
using internal::PrelinkedTensor;
using internal::PrelinkedValue;

/// What a value in RAM starts as.
Result<Tag> tag_of(const PrelinkedMethod& method, size_t index) {
  const size_t tensors = method.tensor_count;
  const size_t values = tensors + method.value_count;
  return index < tensors ? Tag::Tensor
      : index < values   ? method.values[index - tensors].tag
                         : static_cast<Tag>(method.lists[index - values].tag);
}

/// Creates the description of a tensor; `create` is TensorInfo::create(), whose access is
/// MethodMeta's alone.
template <typename Create>
Result<TensorInfo>
describe(const PrelinkedTensor& tensor, bool has_memory, const char* name, Create create) {
  const size_t dim = static_cast<size_t>(tensor.dim);
  return create(
      Span<const int32_t>(tensor.sizes, dim),
      Span<const uint8_t>(tensor.dim_order, dim),
      tensor.type,
      has_memory,
      name);
}

template <typename Create>
Result<TensorInfo>
describe_value(const PrelinkedMethod& method, size_t index, const char* name, Create create) {
  if (index < method.tensor_count) {
    const PrelinkedTensor& tensor = method.tensors[index];
    return describe(tensor, tensor.memory() != 0, name, create);
  }
  const Result<Tag> tag = tag_of(method, index);
  ET_CHECK_OR_RETURN_ERROR(*tag == Tag::Tensor, InvalidArgument, "the value is no tensor");
  // A constant.
  const PrelinkedValue& value = method.values[index - method.tensor_count];
  return describe(*static_cast<const PrelinkedTensor*>(value.payload.address), true, name, create);
}

Error check_index(size_t index, size_t count) {
  ET_CHECK_OR_RETURN_ERROR(index < count, InvalidArgument, "no value %zu of %zu", index, count);
  return Error::Ok;
}

} // namespace

MethodMeta::MethodMeta(const executorch_flatbuffer::ExecutionPlan* s_plan) : s_plan_(s_plan) {}

const char* MethodMeta::name() const {
  return prelinked_method(s_plan_).name;
}

size_t MethodMeta::num_inputs() const {
  return prelinked_method(s_plan_).input_count;
}

Result<Tag> MethodMeta::input_tag(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.input_count);
  return error == Error::Ok ? tag_of(method, method.inputs[index]) : Result<Tag>(error);
}

Result<TensorInfo> MethodMeta::input_tensor_meta(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.input_count);
  return error == Error::Ok ? describe_value(method, method.inputs[index], "", TensorInfo::create)
                            : Result<TensorInfo>(error);
}

size_t MethodMeta::num_outputs() const {
  return prelinked_method(s_plan_).output_count;
}

Result<Tag> MethodMeta::output_tag(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.output_count);
  return error == Error::Ok ? tag_of(method, method.outputs()[index]) : Result<Tag>(error);
}

Result<TensorInfo> MethodMeta::output_tensor_meta(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.output_count);
  return error == Error::Ok
      ? describe_value(method, method.outputs()[index], "", TensorInfo::create)
      : Result<TensorInfo>(error);
}

size_t MethodMeta::num_attributes() const {
  return prelinked_method(s_plan_).attribute_count;
}

Result<TensorInfo> MethodMeta::attribute_tensor_meta(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.attribute_count);
  if (error != Error::Ok) {
    return error;
  }
  const internal::PrelinkedAttribute& attribute = method.attributes[index];
  if ((attribute.value & PrelinkedMethod::kInRam) != 0) {
    return describe_value(
        method, attribute.value / sizeof(PrelinkedValue), attribute.name, TensorInfo::create);
  }
  const auto* value = reinterpret_cast<const PrelinkedValue*>(attribute.value);
  return describe(
      *static_cast<const PrelinkedTensor*>(value->payload.address),
      true,
      attribute.name,
      TensorInfo::create);
}

size_t MethodMeta::num_memory_planned_buffers() const {
  return prelinked_method(s_plan_).planned_count;
}

Result<int64_t> MethodMeta::memory_planned_buffer_size(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.planned_count);
  return error == Error::Ok ? Result<int64_t>(method.planned_sizes[index]) : Result<int64_t>(error);
}

Result<etensor::Device> MethodMeta::memory_planned_buffer_device(size_t index) const {
  const Error error = check_index(index, num_memory_planned_buffers());
  return error == Error::Ok ? Result<etensor::Device>(etensor::Device(etensor::DeviceType::CPU, 0))
                            : Result<etensor::Device>(error);
}

bool MethodMeta::uses_backend(const char* backend_name) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  for (uint32_t i = 0; i < method.delegate_count(); ++i) {
    if (std::strcmp(method.delegates()[i].id, backend_name) == 0) {
      return true;
    }
  }
  return false;
}

size_t MethodMeta::num_backends() const {
  return prelinked_method(s_plan_).delegate_count();
}

Result<const char*> MethodMeta::get_backend_name(size_t index) const {
  const PrelinkedMethod& method = prelinked_method(s_plan_);
  const Error error = check_index(index, method.delegate_count());
  return error == Error::Ok ? Result<const char*>(method.delegates()[index].id)
                            : Result<const char*>(error);
}

size_t MethodMeta::num_instructions() const {
  return prelinked_method(s_plan_).instruction_count;
}

} // namespace runtime
} // namespace executorch
