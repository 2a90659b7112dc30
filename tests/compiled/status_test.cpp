/// Statuses of the C interface are the runtime's errors: generated code casts one to the other.

#include <executorch/runtime/core/error.h>

#include "torch_fusion.h"

using executorch::runtime::Error;

namespace {

constexpr bool is(torch_fusion_status status, Error error) {
  return static_cast<unsigned>(status) == static_cast<unsigned>(error);
}

static_assert(is(TORCH_FUSION_OK, Error::Ok), "");
static_assert(is(TORCH_FUSION_INTERNAL, Error::Internal), "");
static_assert(is(TORCH_FUSION_INVALID_STATE, Error::InvalidState), "");
static_assert(is(TORCH_FUSION_NOT_SUPPORTED, Error::NotSupported), "");
static_assert(is(TORCH_FUSION_INVALID_ARGUMENT, Error::InvalidArgument), "");
static_assert(is(TORCH_FUSION_INVALID_TYPE, Error::InvalidType), "");
static_assert(is(TORCH_FUSION_MEMORY_TOO_SMALL, Error::MemoryAllocationFailed), "");
static_assert(is(TORCH_FUSION_ACCESS_FAILED, Error::AccessFailed), "");
static_assert(is(TORCH_FUSION_INVALID_PROGRAM, Error::InvalidProgram), "");
static_assert(
    is(TORCH_FUSION_DELEGATE_INVALID_COMPATIBILITY, Error::DelegateInvalidCompatibility),
    "");

} // namespace

int main() {
  return 0;
}
