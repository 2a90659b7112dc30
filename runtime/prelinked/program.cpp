#include <executorch/runtime/executor/program.h>

#include <cinttypes>
#include <cstring>

#include "runtime/prelinked/plan.h"

namespace executorch {
namespace runtime {

namespace {

using internal::PrelinkedMethod;
using internal::PrelinkedProgram;

const PrelinkedProgram& prelinked(const FreeableBuffer& data) {
  return *static_cast<const PrelinkedProgram*>(data.data());
}

const PrelinkedMethod* find_method(const PrelinkedProgram& program, const char* name) {
  for (uint32_t i = 0; name != nullptr && i < program.method_count; ++i) {
    if (std::strcmp(program.methods[i].name, name) == 0) {
      return &program.methods[i];
    }
  }
  ET_LOG(Error, "the program has no method %s", name == nullptr ? "(null)" : name);
  return nullptr;
}

} // namespace

Program::HeaderStatus Program::check_header(const void* data, size_t size) {
  if (size < kMinHeadBytes) {
    return HeaderStatus::ShortData;
  }
  return std::memcmp(data, PrelinkedProgram::kMagic, sizeof(PrelinkedProgram::magic)) == 0
      ? HeaderStatus::CompatibleVersion
      : HeaderStatus::NotPresent;
}

// Flattened, as moves of buffers in and out of results are most of it otherwise.
[[gnu::flatten]] Result<Program> Program::load(DataLoader* loader, Verification) {
  ET_CHECK_OR_RETURN_ERROR(loader != nullptr, InvalidArgument, "no data loader");
  const Result<size_t> size = loader->size();
  if (!size.ok()) {
    return size.error();
  }
  ET_CHECK_OR_RETURN_ERROR(
      *size >= kMinHeadBytes, AccessFailed, "%zu bytes are too few for a program", *size);
  Result<FreeableBuffer> data =
      loader->load(0, *size, DataLoader::SegmentInfo(DataLoader::SegmentInfo::Type::Program));
  if (!data.ok()) {
    return data.error();
  }
  ET_CHECK_OR_RETURN_ERROR(
      check_header(data->data(), data->size()) == HeaderStatus::CompatibleVersion &&
          prelinked(*data).self == data->data(),
      InvalidProgram,
      "these bytes are not the program that was linked into this image; to load .pte files, build "
      "it with prelink = False");
  return Program(loader, 0, std::move(*data), nullptr, FreeableBuffer(), std::nullopt);
}

Result<const void*> Program::get_constant_buffer_data(size_t, size_t) const {
  return Error::NotSupported;
}

Result<const NamedDataMap*> Program::get_named_data_map() const {
  return Error::NotFound;
}

size_t Program::num_methods() const {
  return prelinked(program_data_).method_count;
}

Result<const char*> Program::get_method_name(size_t method_index) const {
  ET_CHECK_OR_RETURN_ERROR(
      method_index < num_methods(), InvalidArgument, "the program has no method %zu", method_index);
  return prelinked(program_data_).methods[method_index].name;
}

Result<Method> Program::load_method(
    const char* method_name,
    MemoryManager* memory_manager,
    EventTracer* event_tracer,
    const NamedDataMap* named_data_map,
    const LoadBackendOptionsMap* backend_options,
    Span<const Kernel> kernel_registry) const {
  const PrelinkedMethod* method = find_method(prelinked(program_data_), method_name);
  if (method == nullptr) {
    return Error::InvalidArgument;
  }
  return Method::load(
      internal::as_plan(method),
      this,
      memory_manager,
      event_tracer,
      named_data_map,
      backend_options,
      kernel_registry);
}

Result<MethodMeta> Program::method_meta(const char* method_name) const {
  const PrelinkedMethod* method = find_method(prelinked(program_data_), method_name);
  if (method == nullptr) {
    return Error::InvalidArgument;
  }
  return MethodMeta(internal::as_plan(method));
}

Result<const char*> Program::get_output_flattening_encoding(const char*) const {
  ET_LOG(Error, "a program that was linked at build time has no output encoding");
  return Error::NotSupported;
}

Error Program::get_backend_delegate_data(size_t, const void**, size_t*) const {
  return Error::NotSupported;
}

Result<FreeableBuffer> Program::LoadSegment(const DataLoader::SegmentInfo&) const {
  return Error::NotSupported;
}

Error Program::load_mutable_subsegment_into(size_t, size_t, size_t, void*) const {
  return Error::NotSupported;
}

} // namespace runtime
} // namespace executorch
