#include "runtime/backend/delegate.h"

#include <cinttypes>

#include "runtime/backend/delegation.h"

namespace executorch::runtime {

Error BackendDelegate::init(
    const char* id,
    FreeableBuffer&& processed,
    ArrayRef<CompileSpec> specs,
    BackendInitContext& context) {
  const BackendInterface* const backend = get_backend_class(id);
  ET_CHECK_OR_RETURN_ERROR(
      backend != nullptr,
      NotFound,
      "the image has no backend %s; give its torch_backend to the image's `backends`",
      id);
  ET_CHECK_OR_RETURN_ERROR(
      backend->is_available(), NotSupported, "backend %s is not available on this device", id);
  new (&processed_) FreeableBuffer(std::move(processed));
  const Result<DelegateHandle*> handle = backend->init(context, &processed_, specs);
  ET_CHECK_OK_OR_RETURN_ERROR(
      handle.error(),
      "backend %s refuses a delegate of method %s, error 0x%" PRIx32,
      id,
      context.get_method_name(),
      static_cast<uint32_t>(handle.error()));
  handle_ = *handle;
  backend_ = backend;
  return Error::Ok;
}

BackendDelegate::~BackendDelegate() {
  if (backend_ != nullptr) {
    backend_->destroy(handle_);
  }
}

namespace internal {

Error execute_delegate(
    const BackendDelegate& delegate,
    BackendExecutionContext&& context,
    MemoryAllocator* temp_allocator,
    Span<EValue*> arguments) {
  const Error error = delegate.execute(context, arguments);
  if (temp_allocator != nullptr) {
    temp_allocator->reset();
  }
  return error;
}

} // namespace internal
} // namespace executorch::runtime
