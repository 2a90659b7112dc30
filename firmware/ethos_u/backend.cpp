#include "firmware/ethos_u/backend.h"

#include <cinttypes>
#include <cstring>

#include "firmware/ethos_u/commands.h"
#include "firmware/ethos_u/driver.h"
#include "firmware/ethos_u/payload.h"
#include "runtime/kernel/constant_data.h"

namespace torch_fusion::ethos_u {

using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

// firmware/ethos_u/BUILD.bazel says so.
static_assert(sizeof(void*) != 4 || sizeof(Payload) == 48);

namespace {

/// A tensor of a call that is to have a place's size; nullptr if it has not.
const Tensor* tensor_for(const EValue& value, const TensorPlace& place) {
  if (!value.isTensor()) {
    return nullptr;
  }
  const Tensor& tensor = value.payload.as_tensor;
  return tensor.nbytes() == size_of(place) && tensor.const_data_ptr() != nullptr ? &tensor
                                                                                 : nullptr;
}

} // namespace

Backend backend;

Result<DelegateHandle*>
Backend::init(BackendInitContext& context, FreeableBuffer* processed, ArrayRef<CompileSpec>) const {
  auto* const payload = static_cast<Payload*>(
      context.get_runtime_allocator()->allocate(sizeof(Payload), alignof(Payload)));
  ET_CHECK_OR_RETURN_ERROR(
      payload != nullptr,
      MemoryAllocationFailed,
      "a delegate for the NPU needs %zu bytes of the method allocator",
      sizeof(Payload));
  new (payload) Payload();
  Error error =
      parse({static_cast<const uint8_t*>(processed->data()), processed->size()}, *payload);
  if (error != Error::Ok) {
    return error;
  }
  // The .pte may have been written to RAM.
  ethos_u_flush(processed->data(), processed->size());
  error = check_commands(*payload, kDevice.cache_size);
  if (error != Error::Ok) {
    return error;
  }
  return payload;
}

Error Backend::execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue*> args)
    const {
  const Payload& payload = *static_cast<const Payload*>(handle);
  const size_t input_count = payload.inputs.size();
  ET_CHECK_OR_RETURN_ERROR(
      args.size() == input_count + payload.outputs.size(),
      InvalidArgument,
      "a delegate for the NPU has %zu inputs and %zu outputs, and gets %zu arguments",
      input_count,
      payload.outputs.size(),
      args.size());
  // The last line of the cache has nothing of others.
  const size_t size = (payload.scratch_size + kCacheLine - 1) & ~(kCacheLine - 1);
  uint8_t* const scratch = static_cast<uint8_t*>(context.allocate(size, kCacheLine));
  ET_CHECK_OR_RETURN_ERROR(
      scratch != nullptr,
      MemoryAllocationFailed,
      "a delegate for the NPU needs %zu bytes of the temporary allocator, from a multiple of %zu "
      "on",
      size,
      kCacheLine);
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_input = i < input_count;
    const TensorPlace& place = is_input ? payload.inputs[i] : payload.outputs[i - input_count];
    const Tensor* const tensor = tensor_for(*args[i], place);
    ET_CHECK_OR_RETURN_ERROR(
        tensor != nullptr &&
            (is_input ||
             !executorch::runtime::internal::is_constant_data(tensor->const_data_ptr())),
        InvalidArgument,
        "argument %zu of a delegate for the NPU is no tensor of %zu bytes, or a constant to write "
        "to",
        i,
        size_of(place));
    if (is_input) {
      std::memcpy(scratch + place.offset, tensor->const_data_ptr(), size_of(place));
    }
  }
  const Error error = compute(
      kDevice,
      {payload.config,
       payload.architecture,
       payload.commands,
       payload.weights.data(),
       scratch,
       payload.scratch_size});
  if (error != Error::Ok) {
    return error;
  }
  for (size_t i = 0; i < payload.outputs.size(); ++i) {
    const TensorPlace& place = payload.outputs[i];
    std::memcpy(
        args[input_count + i]->payload.as_tensor.mutable_data_ptr(),
        scratch + place.offset,
        size_of(place));
  }
  return Error::Ok;
}

} // namespace torch_fusion::ethos_u
