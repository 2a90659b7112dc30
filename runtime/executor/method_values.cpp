#include "runtime/executor/method_values.h"

#include <cinttypes>

// Experimental and deprecated methods of the public API are defined and called here.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/method.h>

#include "runtime/backend/delegation.h"

// The common part of all methods, whatever executes them: their inputs and outputs are values in
// RAM.

namespace executorch::runtime {

using executorch::aten::Tensor;

namespace internal {

Result<bool> is_true(const EValue& condition) {
  if (condition.isBool()) {
    return condition.payload.copyable_union.as_bool;
  }
  ET_CHECK_OR_RETURN_ERROR(
      condition.isTensor() &&
          condition.payload.as_tensor.scalar_type() == executorch::aten::ScalarType::Bool,
      InvalidProgram,
      "a jump's condition is no flag");
  const Tensor& tensor = condition.payload.as_tensor;
  const uint8_t* flags = static_cast<const uint8_t*>(tensor.const_data_ptr());
  const size_t count = tensor.nbytes();
  ET_CHECK_OR_RETURN_ERROR(
      flags != nullptr || count == 0, InvalidState, "a jump's condition has no data");
  for (size_t i = 0; i < count; ++i) {
    if (flags[i] == 0) {
      return false;
    }
  }
  return true;
}

} // namespace internal

[[gnu::flatten]] Result<Method> Method::load(
    executorch_flatbuffer::ExecutionPlan* s_plan,
    const Program* program,
    MemoryManager* memory_manager,
    EventTracer* event_tracer,
    const NamedDataMap* named_data_map,
    const LoadBackendOptionsMap* backend_options,
    Span<const Kernel> kernel_registry) {
  ET_CHECK_OR_RETURN_ERROR(
      memory_manager != nullptr && memory_manager->method_allocator() != nullptr,
      InvalidArgument,
      "no method allocator to load the method with");
  Method method(
      program, memory_manager, event_tracer, memory_manager->temp_allocator(), kernel_registry);
  const Error error = method.init(s_plan, named_data_map, backend_options);
  if (error != Error::Ok) {
    return error;
  }
  return method;
}

// Values refer to memory of the allocators and of the program, so that only delegates have to be
// freed.
Method::~Method() {
  if (internal::kHasDelegates) {
    for (size_t i = n_delegate_; i-- > 0;) {
      delegates_[i].~BackendDelegate();
    }
  }
}

EventTracer* Method::get_event_tracer() {
  return event_tracer_;
}

Error Method::experimental_step() {
  return step();
}

Error Method::experimental_reset_execution() {
  return reset_execution();
}

const EValue& Method::get_value(size_t i) const {
  return values_[i];
}

EValue& Method::mutable_value(size_t i) {
  return values_[i];
}

const EValue& Method::get_input(size_t i) const {
  return get_value(get_input_index(i));
}

EValue& Method::mutable_input(size_t i) {
  EValue& input = mutable_value(get_input_index(i));
  // A caller that asks for this fills the input by itself.
  input_set_[i] = true;
  return input;
}

const EValue& Method::get_output(size_t i) const {
  return get_value(get_output_index(i));
}

EValue& Method::mutable_output(size_t i) {
  return mutable_value(get_output_index(i));
}

Error Method::set_input(const EValue& input_evalue, size_t input_idx) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  const size_t input_count = inputs_size();
  ET_CHECK_OR_RETURN_ERROR(
      input_idx < input_count,
      InvalidArgument,
      "the method has %zu inputs, and no input %zu",
      input_count,
      input_idx);
  const EValue& input = values_[get_input_index(input_idx)];
  ET_CHECK_OR_RETURN_ERROR(
      input.tag == input_evalue.tag,
      InvalidArgument,
      "input %zu is of type %" PRIu32 ", and the value given for it of type %" PRIu32,
      input_idx,
      static_cast<uint32_t>(input.tag),
      static_cast<uint32_t>(input_evalue.tag));
  switch (input.tag) {
    case Tag::Tensor: {
      const Tensor& target = input.payload.as_tensor;
      const Tensor& source = input_evalue.payload.as_tensor;
      ET_CHECK_OR_RETURN_ERROR(
          target.scalar_type() == source.scalar_type(),
          InvalidArgument,
          "input %zu has dtype %d, and the tensor given for it %d",
          input_idx,
          static_cast<int>(target.scalar_type()),
          static_cast<int>(source.scalar_type()));
      ET_CHECK_OR_RETURN_ERROR(
          source.sizes().equals(target.sizes()) ||
              resize_tensor(target, source.sizes()) == Error::Ok,
          InvalidArgument,
          "the tensor given for input %zu has another shape",
          input_idx);
      // A tensor made without a dim order has the default one.
      const auto dim_order = source.dim_order();
      const size_t dim = target.dim_order().size();
      ET_CHECK_OR_RETURN_ERROR(
          dim_order.data() == nullptr ? is_contiguous_dim_order(target.dim_order().data(), dim)
                                      : dim_order.equals(target.dim_order()),
          InvalidArgument,
          "the tensor given for input %zu has another dim order",
          input_idx);
      const bool is_planned = input_set_[input_count + input_idx];
      const Error error = is_planned ? internal::copy_tensor_data(target, source)
                                     : internal::share_tensor_data(target, source);
      if (error != Error::Ok) {
        return error;
      }
      break;
    }
    case Tag::None:
      break;
    case Tag::Int:
    case Tag::Double:
    case Tag::Bool: {
      // The export made the value a constant of the program. Doubles are compared by their bits,
      // which needs no software floating point.
      const auto& expected = input.payload.copyable_union;
      const auto& given = input_evalue.payload.copyable_union;
      ET_CHECK_OR_RETURN_ERROR(
          input.tag == Tag::Bool ? expected.as_bool == given.as_bool
                                 : expected.as_int == given.as_int,
          InvalidArgument,
          "input %zu is not the number that the model was exported with",
          input_idx);
      break;
    }
    default:
      ET_CHECK_OR_RETURN_ERROR(
          input.tag == Tag::String && input.toString() == input_evalue.toString(),
          InvalidArgument,
          "input %zu is not a value that the model was exported with",
          input_idx);
  }
  input_set_[input_idx] = true;
  return Error::Ok;
}

Error Method::set_inputs(const executorch::aten::ArrayRef<EValue>& input_evalues) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      input_evalues.size() == inputs_size(),
      InvalidArgument,
      "%zu values for %zu inputs",
      input_evalues.size(),
      inputs_size());
  for (size_t i = 0; i < input_evalues.size(); ++i) {
    const Error error = set_input(input_evalues[i], i);
    if (error != Error::Ok) {
      return error;
    }
  }
  return Error::Ok;
}

Error Method::set_output_data_ptr(void* buffer, size_t size, size_t output_idx) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  ET_CHECK_OR_RETURN_ERROR(
      output_idx < outputs_size(),
      InvalidArgument,
      "the method has %zu outputs, and no output %zu",
      outputs_size(),
      output_idx);
  const size_t index = get_output_index(output_idx);
  const EValue& output = values_[index];
  ET_CHECK_OR_RETURN_ERROR(
      output.isTensor(), InvalidArgument, "output %zu is no tensor", output_idx);
  ET_CHECK_OR_RETURN_ERROR(
      !internal::has_own_memory(serialization_plan_, index),
      InvalidState,
      "output %zu has memory already, by the memory plan or as a constant",
      output_idx);
  const Tensor& target = output.payload.as_tensor;
  // After a move, it is a different value and shares its memory.
  for (size_t i = 0; i < n_value_; ++i) {
    ET_CHECK_OR_RETURN_ERROR(
        i == index || !values_[i].isTensor() ||
            values_[i].payload.as_tensor.unsafeGetTensorImpl() != target.unsafeGetTensorImpl(),
        InvalidState,
        "output %zu has the memory of another value",
        output_idx);
  }
  ET_CHECK_OR_RETURN_ERROR(
      reinterpret_cast<uintptr_t>(buffer) % static_cast<size_t>(target.element_size()) == 0,
      InvalidArgument,
      "the buffer for output %zu is misaligned",
      output_idx);
  return internal::set_tensor_data(target, buffer, size);
}

namespace {

Error check_room(const EValue* out, size_t out_length, size_t count) {
  ET_CHECK_OR_RETURN_ERROR(
      out != nullptr && out_length >= count,
      InvalidArgument,
      "room for %zu values, of %zu",
      out_length,
      count);
  return Error::Ok;
}

} // namespace

Error Method::get_outputs(EValue* output_evalues, size_t length) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  const size_t count = outputs_size();
  const Error error = check_room(output_evalues, length, count);
  for (size_t i = 0; error == Error::Ok && i < length; ++i) {
    const EValue output = i < count ? get_output(i) : EValue();
    ET_CHECK_OR_RETURN_ERROR(
        !output.isTensor() || internal::has_memory(output.payload.as_tensor),
        InvalidState,
        "output %zu has no memory",
        i);
    output_evalues[i] = output;
  }
  return error;
}

Error Method::get_inputs(EValue* input_evalues, size_t length) {
  ET_CHECK_OR_RETURN_ERROR(initialized(), InvalidState, "the method is not initialized");
  const size_t count = inputs_size();
  const Error error = check_room(input_evalues, length, count);
  for (size_t i = 0; error == Error::Ok && i < length; ++i) {
    // A caller that asks for these may fill them.
    input_evalues[i] = i < count ? mutable_input(i) : EValue();
  }
  return error;
}

} // namespace executorch::runtime
