#include "firmware/ethos_u/backend.h"
#include "firmware/ethos_u/commands.h"

namespace torch_fusion {
namespace ethos_u {

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

CheckingBackend checking_backend;

Result<DelegateHandle*> CheckingBackend::init(
    BackendInitContext& context,
    FreeableBuffer* processed,
    ArrayRef<CompileSpec> compile_specs) const {
  const Result<DelegateHandle*> handle = backend.init(context, processed, compile_specs);
  if (!handle.ok()) {
    return handle.error();
  }
  const Error error = check_commands(*static_cast<const Payload*>(*handle));
  if (error != Error::Ok) {
    return error;
  }
  return *handle;
}

Error CheckingBackend::execute(
    BackendExecutionContext& context,
    DelegateHandle* handle,
    Span<EValue*> args) const {
  return backend.execute(context, handle, args);
}

} // namespace ethos_u
} // namespace torch_fusion
