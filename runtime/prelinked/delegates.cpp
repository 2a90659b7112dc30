// Delegates of programs that were linked at build time.

#include <executorch/runtime/executor/program.h>

#include "runtime/backend/delegation.h"
#include "runtime/prelinked/plan.h"

namespace executorch {
namespace runtime {

Error internal::init_delegates(
    const Program&,
    const FreeableBuffer&,
    const executorch_flatbuffer::ExecutionPlan* plan,
    BackendInitContext&& context,
    BackendDelegate** delegates,
    size_t* count) {
  const internal::PrelinkedMethod& method = internal::prelinked_method(plan);
  const uint32_t delegate_count = method.delegate_count();
  MemoryAllocator& allocator = *context.get_runtime_allocator();
  const size_t size = delegate_count * sizeof(BackendDelegate);
  *delegates = static_cast<BackendDelegate*>(allocator.allocate(size, alignof(BackendDelegate)));
  ET_CHECK_OR_RETURN_ERROR(
      *delegates != nullptr,
      MemoryAllocationFailed,
      "the delegates need %zu bytes of the method allocator, which has %zu left",
      size,
      allocator.free_size());
  for (uint32_t i = 0; i < delegate_count; ++i) {
    const internal::PrelinkedDelegate& linked = method.delegates()[i];
    BackendDelegate* const delegate = new (*delegates + i) BackendDelegate();
    *count = i + 1;
    const Error error = delegate->init(
        linked.id,
        FreeableBuffer(linked.data, linked.size, nullptr),
        {static_cast<const CompileSpec*>(linked.specs), linked.spec_count},
        context);
    if (error != Error::Ok) {
      return error;
    }
  }
  return Error::Ok;
}

} // namespace runtime
} // namespace executorch
