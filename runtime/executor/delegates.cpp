// Delegates of .pte files.

#include <cinttypes>

#include <executorch/runtime/executor/program.h>

#include "runtime/backend/delegation.h"
#include "runtime/schema/program_reader.h"

namespace executorch::runtime {

namespace {

using executorch_flatbuffer::BackendDelegateDataReference;
using executorch_flatbuffer::DelegateCall;
using executorch_flatbuffer::ExecutionPlan;
using flatbuffers::length;
using flatbuffers::Offset;
using flatbuffers::Vector;
using flatbuffers::Verifier;
using flatbuffers::View;
using Table = executorch_flatbuffer::BackendDelegate;
using Tables = Vector<Offset<Table>>;
using Specs = Vector<Offset<executorch_flatbuffer::CompileSpec>>;

template <typename T>
T* allocate(MemoryAllocator& allocator, size_t count) {
  void* const result = allocator.allocate(count * sizeof(T), alignof(T));
  if (result == nullptr) {
    ET_LOG(
        Error,
        "a delegate needs %zu bytes of the method allocator, which has %zu left",
        count * sizeof(T),
        allocator.free_size());
  }
  return static_cast<T*>(result);
}

// The compile options of a delegate.
Error read_specs(
    Verifier& verifier,
    const Specs* tables,
    MemoryAllocator& allocator,
    ArrayRef<CompileSpec>& specs) {
  if (length(tables) == 0) {
    return Error::Ok;
  }
  auto* const read = allocate<CompileSpec>(allocator, tables->size());
  if (read == nullptr) {
    return Error::MemoryAllocationFailed;
  }
  for (uint32_t i = 0; i < tables->size(); ++i) {
    View spec;
    const flatbuffers::String* key = verifier.open(*tables, i, spec)
        ? verifier.string(spec, executorch_flatbuffer::CompileSpec::VT_KEY)
        : nullptr;
    ET_CHECK_OR_RETURN_ERROR(
        key != nullptr, InvalidProgram, "what a delegate was compiled with is corrupted");
    const auto* value =
        verifier.vector<uint8_t>(spec, executorch_flatbuffer::CompileSpec::VT_VALUE);
    // ExecuTorch's type isn't for constants; nobody writes there.
    void* const bytes = value == nullptr ? nullptr : const_cast<uint8_t*>(value->data());
    read[i] = {key->c_str(), {bytes, length(value)}};
  }
  specs = {read, tables->size()};
  return Error::Ok;
}

Result<FreeableBuffer>
load_data(Verifier& verifier, const View& delegate, const Program& program, const char* id) {
  View reference;
  ET_CHECK_OR_RETURN_ERROR(
      verifier.open(delegate, Table::VT_PROCESSED, reference),
      InvalidProgram,
      "a delegate has no data");
  return BackendDelegate::load_data(
      program,
      reference.scalar<executorch_flatbuffer::DataLocation>(
          BackendDelegateDataReference::VT_LOCATION) ==
          executorch_flatbuffer::DataLocation::SEGMENT,
      reference.scalar<uint32_t>(BackendDelegateDataReference::VT_INDEX),
      id);
}

} // namespace

Error internal::init_delegates(
    const Program& program,
    const FreeableBuffer& program_data,
    const ExecutionPlan* plan,
    BackendInitContext&& context,
    BackendDelegate** delegates,
    size_t* count) {
  Verifier verifier(program_data.data(), program_data.size());
  const Tables& tables = *plan->delegates();
  MemoryAllocator& allocator = *context.get_runtime_allocator();
  *delegates = allocate<BackendDelegate>(allocator, tables.size());
  if (*delegates == nullptr) {
    return Error::MemoryAllocationFailed;
  }
  for (uint32_t i = 0; i < tables.size(); ++i) {
    View table;
    const flatbuffers::String* id =
        verifier.open(tables, i, table) ? verifier.string(table, Table::VT_ID) : nullptr;
    ET_CHECK_OR_RETURN_ERROR(id != nullptr, InvalidProgram, "delegate %" PRIu32 " is corrupted", i);
    ArrayRef<CompileSpec> specs;
    Error error = read_specs(
        verifier,
        verifier.vector<Offset<executorch_flatbuffer::CompileSpec>>(table, Table::VT_COMPILE_SPECS),
        allocator,
        specs);
    if (error != Error::Ok) {
      return error;
    }
    Result<FreeableBuffer> data = load_data(verifier, table, program, id->c_str());
    if (!data.ok()) {
      return data.error();
    }
    BackendDelegate* const delegate = new (*delegates + i) BackendDelegate();
    *count = i + 1;
    error = delegate->init(id->c_str(), std::move(*data), specs, context);
    if (error != Error::Ok) {
      return error;
    }
  }
  return Error::Ok;
}

Error internal::check_delegate_call(
    Verifier& verifier,
    const View& content,
    uint32_t count,
    uint32_t* highest_value,
    uint32_t* argument_count) {
  const uint32_t delegate = content.scalar<uint32_t>(DelegateCall::VT_DELEGATE_INDEX);
  const auto* args = verifier.vector<int32_t>(content, DelegateCall::VT_ARGS);
  ET_CHECK_OR_RETURN_ERROR(
      args != nullptr && delegate < count,
      InvalidProgram,
      "an instruction calls delegate %" PRIu32 " of %" PRIu32,
      delegate,
      count);
  *argument_count = args->size() > *argument_count ? args->size() : *argument_count;
  for (uint32_t i = 0; i < args->size(); ++i) {
    const uint32_t value = static_cast<uint32_t>((*args)[i]);
    *highest_value = value > *highest_value ? value : *highest_value;
  }
  return Error::Ok;
}

Result<FreeableBuffer>
BackendDelegate::load_data(const Program& program, bool is_segment, size_t index, const char* id) {
  if (is_segment) {
    return program.LoadSegment(
        DataLoader::SegmentInfo(DataLoader::SegmentInfo::Type::Backend, index, id));
  }
  const void* data = nullptr;
  size_t size = 0;
  const Error error = program.get_backend_delegate_data(index, &data, &size);
  if (error != Error::Ok) {
    return error;
  }
  return FreeableBuffer(data, size, nullptr);
}

} // namespace executorch::runtime
