#include "firmware/ethos_u/backend.h"
#include "firmware/ethos_u/commands.h"
#include "firmware/ethos_u/driver.h"

namespace torch_fusion {
namespace ethos_u {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

CheckingBackend checking_backend;

Result<DelegateHandle*> CheckingBackend::init(
    BackendInitContext& context,
    FreeableBuffer* processed,
    ArrayRef<CompileSpec>) const {
  const Result<DelegateHandle*> handle = Backend::init(context, processed, {});
  if (!handle.ok()) {
    return handle.error();
  }
  const Error error = check_commands(*static_cast<const Payload*>(*handle), kDevice.cache_size);
  if (error != Error::Ok) {
    return error;
  }
  return *handle;
}

} // namespace ethos_u
} // namespace torch_fusion
