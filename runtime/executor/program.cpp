#include <executorch/runtime/executor/program.h>

#include <cinttypes>

#include "runtime/executor/optional_parts.h"
#include "runtime/executor/plan.h"
#include "runtime/schema/program_reader.h"

namespace executorch::runtime {

namespace {

using executorch_flatbuffer::DataSegment;
using executorch_flatbuffer::ExecutionPlan;
using executorch_flatbuffer::SubsegmentOffsets;
using flatbuffers::length;
using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Verifier;
using flatbuffers::View;
using Root = executorch_flatbuffer::Program;
using SegmentType = DataLoader::SegmentInfo::Type;

// A flatbuffer begins with the root table's offset and the file identifier. A program with segments
// has the extended header after them: magic, its own length, the size of the flatbuffer and where
// the segments begin, 4 + 4 + 8 + 8 bytes, and in newer programs the size of all segments, 8 bytes.
constexpr size_t kIdentifierOffset = 4;
constexpr size_t kHeaderOffset = 8;
constexpr size_t kHeaderMinimumLength = 24;
constexpr size_t kSmallestProgram = 16;

// The exporter's alignment of constants and inline buffers within the file.
constexpr uintptr_t kAlignment = 16;

// True if data begin with a magic of four characters.
bool has_magic(const uint8_t* data, const char (&magic)[5]) {
  return flatbuffers::load<uint32_t>(data) == flatbuffers::load<uint32_t>(magic);
}

// True if a big-endian writer made this: the root offset makes sense only with its bytes swapped.
bool is_big_endian(const uint8_t* data, size_t size) {
  const uint32_t root = flatbuffers::load<uint32_t>(data);
  return root >= size && __builtin_bswap32(root) < size;
}

// Reads 64 bits that must fit size_t; SIZE_MAX, which no file reaches, where they don't.
size_t load_size(const uint8_t* address) {
  const uint64_t value = flatbuffers::load<uint64_t>(address);
  return value < SIZE_MAX ? static_cast<size_t>(value) : SIZE_MAX;
}

// Reads the header before the root table, in the first Program::kMinHeadBytes of a file.
Error read_header(
    const FreeableBuffer& head,
    size_t file_size,
    size_t* program_size,
    size_t* segment_base_offset) {
  const uint8_t* bytes = static_cast<const uint8_t*>(head.data());
  ET_CHECK_OR_RETURN_ERROR(
      head.size() >= Program::kMinHeadBytes, AccessFailed, "the loader gave too few bytes");
  const Program::HeaderStatus status = Program::check_header(bytes, Program::kMinHeadBytes);
  ET_CHECK_OR_RETURN_ERROR(
      status != Program::IncompatibleVersion,
      NotSupported,
      "program format %.4s is not %s, the one that this runtime reads; export the model with an "
      "ExecuTorch release of the same format",
      reinterpret_cast<const char*>(bytes + kIdentifierOffset),
      executorch_flatbuffer::kFileIdentifier);
  ET_CHECK_OR_RETURN_ERROR(
      status == Program::CompatibleVersion,
      InvalidProgram,
      "the bytes are not an ExecuTorch program");
  const uint8_t* header = bytes + kHeaderOffset;
  if (has_magic(header, "eh00")) {
    *program_size = load_size(header + 8);
    *segment_base_offset = load_size(header + 16);
    ET_CHECK_OR_RETURN_ERROR(
        flatbuffers::load<uint32_t>(header + 4) >= kHeaderMinimumLength &&
            *program_size >= kSmallestProgram &&
            (*segment_base_offset == 0 || *segment_base_offset >= *program_size),
        InvalidProgram,
        "corrupted extended header");
    ET_CHECK_OR_RETURN_ERROR(
        *program_size <= file_size && *segment_base_offset <= file_size,
        AccessFailed,
        "truncated program: %zu of %zu bytes",
        file_size,
        *program_size > *segment_base_offset ? *program_size : *segment_base_offset);
  }
  return Error::Ok;
}

bool is_equal(const char* a, const char* b) {
  while (*a == *b && *a != '\0') {
    ++a;
    ++b;
  }
  return *a == *b;
}

// The methods of a program that has been loaded.
const flatbuffers::Vector<Offset<ExecutionPlan>>& plans_of(const Root* program) {
  return *View(program).known_reference<flatbuffers::Vector<Offset<ExecutionPlan>>>(
      Root::VT_EXECUTION_PLAN);
}

// Finds a method by its name, verifying names on the way; nullptr if there is none.
const ExecutionPlan* find_plan(const FreeableBuffer& data, const Root* program, const char* name) {
  Verifier verifier(data.data(), data.size());
  const auto& plans = plans_of(program);
  for (uint32_t i = 0; name != nullptr && i < plans.size(); ++i) {
    View plan;
    const String* plan_name =
        verifier.open(plans, i, plan) ? verifier.string(plan, ExecutionPlan::VT_NAME) : nullptr;
    if (plan_name != nullptr && is_equal(plan_name->c_str(), name)) {
      return plan.as<ExecutionPlan>();
    }
  }
  ET_LOG(Error, "the program has no method %s", name == nullptr ? "(null)" : name);
  return nullptr;
}

} // namespace

namespace internal {

Error locate_segment(
    Verifier& verifier,
    const View& program,
    size_t segment_base_offset,
    size_t index,
    size_t* offset,
    size_t* size) {
  const auto* segments = verifier.vector<Offset<DataSegment>>(program, Root::VT_SEGMENTS);
  View segment;
  ET_CHECK_OR_RETURN_ERROR(
      segment_base_offset != 0 && index < length(segments) &&
          verifier.open(*segments, static_cast<uint32_t>(index), segment),
      NotFound,
      "the program has no segment %zu",
      index);
  const uint64_t start = segment.scalar<uint64_t>(DataSegment::VT_OFFSET) + segment_base_offset;
  const uint64_t bytes = segment.scalar<uint64_t>(DataSegment::VT_SIZE);
  ET_CHECK_OR_RETURN_ERROR(
      start >= segment_base_offset && start < SIZE_MAX && bytes < SIZE_MAX,
      InvalidProgram,
      "segment %zu lies beyond the address space",
      index);
  *offset = static_cast<size_t>(start);
  *size = static_cast<size_t>(bytes);
  return Error::Ok;
}

} // namespace internal

Program::HeaderStatus Program::check_header(const void* data, size_t size) {
  if (size < kMinHeadBytes) {
    return HeaderStatus::ShortData;
  }
  const uint8_t* identifier = static_cast<const uint8_t*>(data) + kIdentifierOffset;
  if (has_magic(identifier, executorch_flatbuffer::kFileIdentifier)) {
    return HeaderStatus::CompatibleVersion;
  }
  return identifier[0] == 'E' && identifier[1] == 'T' ? HeaderStatus::IncompatibleVersion
                                                      : HeaderStatus::NotPresent;
}

// Flattened, as moves of buffers in and out of results are most of it otherwise, in time and in
// flash.
[[gnu::flatten]] Result<Program> Program::load(DataLoader* loader, Verification) {
  ET_CHECK_OR_RETURN_ERROR(loader != nullptr, InvalidArgument, "no data loader");
  Result<size_t> file_size = loader->size();
  if (!file_size.ok()) {
    return file_size.error();
  }
  ET_CHECK_OR_RETURN_ERROR(
      *file_size >= kMinHeadBytes, AccessFailed, "%zu bytes are too few for a program", *file_size);

  const DataLoader::SegmentInfo info(SegmentType::Program);
  size_t program_size = *file_size;
  size_t segment_base_offset = 0;
  {
    Result<FreeableBuffer> head = loader->load(0, kMinHeadBytes, info);
    if (!head.ok()) {
      return head.error();
    }
    const Error error = read_header(*head, *file_size, &program_size, &segment_base_offset);
    if (error != Error::Ok) {
      return error;
    }
  }

  Result<FreeableBuffer> data = loader->load(0, program_size, info);
  if (!data.ok()) {
    return data.error();
  }
  ET_CHECK_OR_RETURN_ERROR(
      data->size() >= program_size, AccessFailed, "the loader gave too few bytes");
  ET_CHECK_OR_RETURN_ERROR(
      reinterpret_cast<uintptr_t>(data->data()) % kAlignment == 0,
      InvalidArgument,
      "the program is at address %p, which is not a multiple of %u",
      data->data(),
      static_cast<unsigned>(kAlignment));

  // Other fields of the root table are verified where they are used.
  Verifier verifier(data->data(), program_size);
  View root;
  const bool has_root = verifier.root(root);
  ET_CHECK_OR_RETURN_ERROR(
      has_root || !is_big_endian(static_cast<const uint8_t*>(data->data()), program_size),
      NotSupported,
      "the program is big-endian; programs are little-endian");
  const auto* plans =
      has_root ? verifier.vector<Offset<ExecutionPlan>>(root, Root::VT_EXECUTION_PLAN) : nullptr;
  View constants;
  // The first constant is a placeholder for tensors without one, so that a single entry means no
  // constants.
  const bool has_constants = plans != nullptr &&
      verifier.open(root, Root::VT_CONSTANT_SEGMENT, constants) &&
      length(verifier.vector<uint64_t>(constants, SubsegmentOffsets::VT_OFFSETS)) > 1;
  ET_CHECK_OR_RETURN_ERROR(
      plans != nullptr && verifier.ok(), InvalidProgram, "corrupted or truncated program");
  ET_CHECK_OR_RETURN_ERROR(
      root.scalar<uint32_t>(Root::VT_VERSION) == 0,
      NotSupported,
      "program schema version %" PRIu32 " is newer than 0, the one that this runtime reads",
      root.scalar<uint32_t>(Root::VT_VERSION));

  size_t offset = 0;
  size_t size = 0;
  const DataLoader::SegmentInfo constant_info(
      SegmentType::Constant,
      has_constants ? constants.scalar<uint32_t>(SubsegmentOffsets::VT_SEGMENT_INDEX) : 0);
  if (has_constants) {
    TORCH_FUSION_CHECK_PART(locate_segment);
    const Error error = internal::kOptionalParts.locate_segment(
        verifier, root, segment_base_offset, constant_info.segment_index, &offset, &size);
    if (error != Error::Ok) {
      return error;
    }
    ET_CHECK_OR_RETURN_ERROR(
        offset <= *file_size && size <= *file_size - offset,
        AccessFailed,
        "truncated program: %zu bytes, without the constants' end",
        *file_size);
  }
  Result<FreeableBuffer> constant_data = has_constants ? loader->load(offset, size, constant_info)
                                                       : Result<FreeableBuffer>(FreeableBuffer());
  if (!constant_data.ok()) {
    return constant_data.error();
  }
  return Program(
      loader,
      segment_base_offset,
      std::move(*data),
      root.as<Root>(),
      std::move(*constant_data),
      std::nullopt);
}

[[gnu::noinline]] Result<const void*> Program::get_constant_buffer_data(
    size_t buffer_idx,
    size_t nbytes) const {
  Verifier verifier(program_data_.data(), program_data_.size());
  const View root(internal_program_);
  const uint32_t index = static_cast<uint32_t>(buffer_idx);
  const uint8_t* data = nullptr;
  size_t size = 0;
  View table;
  if (constant_segment_data_.data() != nullptr) {
    const auto* offsets = verifier.open(root, Root::VT_CONSTANT_SEGMENT, table)
        ? verifier.vector<uint64_t>(table, SubsegmentOffsets::VT_OFFSETS)
        : nullptr;
    const uint64_t offset = buffer_idx < length(offsets) ? (*offsets)[index] : UINT64_MAX;
    if (offset <= constant_segment_data_.size()) {
      data =
          static_cast<const uint8_t*>(constant_segment_data_.data()) + static_cast<size_t>(offset);
      size = constant_segment_data_.size() - static_cast<size_t>(offset);
    }
  } else {
    const auto* buffers =
        verifier.vector<Offset<executorch_flatbuffer::Buffer>>(root, Root::VT_CONSTANT_BUFFER);
    if (buffer_idx < length(buffers) && verifier.open(*buffers, index, table)) {
      const auto* storage =
          verifier.vector<uint8_t>(table, executorch_flatbuffer::Buffer::VT_STORAGE);
      data = storage == nullptr ? nullptr : storage->data();
      size = length(storage);
    }
  }
  ET_CHECK_OR_RETURN_ERROR(
      data != nullptr && nbytes <= size,
      InvalidProgram,
      "the program has %zu bytes of constant %zu where its tensor has %zu",
      size,
      buffer_idx,
      nbytes);
  return static_cast<const void*>(data);
}

size_t Program::num_methods() const {
  return plans_of(internal_program_).size();
}

Result<const char*> Program::get_method_name(size_t method_index) const {
  ET_CHECK_OR_RETURN_ERROR(
      method_index < num_methods(), InvalidArgument, "the program has no method %zu", method_index);
  Verifier verifier(program_data_.data(), program_data_.size());
  View plan;
  const auto& plans = plans_of(internal_program_);
  const String* name = verifier.open(plans, static_cast<uint32_t>(method_index), plan)
      ? verifier.string(plan, ExecutionPlan::VT_NAME)
      : nullptr;
  ET_CHECK_OR_RETURN_ERROR(
      name != nullptr, InvalidProgram, "method %zu is corrupted", method_index);
  return name->c_str();
}

Result<Method> Program::load_method(
    const char* method_name,
    MemoryManager* memory_manager,
    EventTracer* event_tracer,
    const NamedDataMap* named_data_map,
    const LoadBackendOptionsMap* backend_options,
    Span<const Kernel> kernel_registry) const {
  const ExecutionPlan* plan = find_plan(program_data_, internal_program_, method_name);
  if (plan == nullptr) {
    return Error::InvalidArgument;
  }
  return Method::load(
      const_cast<ExecutionPlan*>(plan),
      this,
      memory_manager,
      event_tracer,
      named_data_map,
      backend_options,
      kernel_registry);
}

Result<MethodMeta> Program::method_meta(const char* method_name) const {
  const ExecutionPlan* plan = find_plan(program_data_, internal_program_, method_name);
  if (plan == nullptr) {
    return Error::InvalidArgument;
  }
  ET_CHECK_OR_RETURN_ERROR(
      internal::verify_plan(program_data_.data(), program_data_.size(), plan),
      InvalidProgram,
      "method %s is corrupted",
      method_name);
  return MethodMeta(plan);
}

Result<const char*> Program::get_output_flattening_encoding(const char* method_name) const {
  using executorch_flatbuffer::ContainerMetadata;
  const ExecutionPlan* plan = find_plan(program_data_, internal_program_, method_name);
  if (plan == nullptr) {
    return Error::InvalidArgument;
  }
  Verifier verifier(program_data_.data(), program_data_.size());
  View metadata;
  const String* encoding =
      verifier.open(View(plan), ExecutionPlan::VT_CONTAINER_META_TYPE, metadata)
      ? verifier.string(metadata, ContainerMetadata::VT_ENCODED_OUT_STR)
      : nullptr;
  ET_CHECK_OR_RETURN_ERROR(
      encoding != nullptr, InvalidProgram, "method %s has no output encoding", method_name);
  return encoding->c_str();
}

Error Program::get_backend_delegate_data(size_t index, const void** out_data, size_t* out_size)
    const {
  using executorch_flatbuffer::BackendDelegateInlineData;
  Verifier verifier(program_data_.data(), program_data_.size());
  const auto* items = verifier.vector<Offset<BackendDelegateInlineData>>(
      View(internal_program_), Root::VT_BACKEND_DELEGATE_DATA);
  View item;
  ET_CHECK_OR_RETURN_ERROR(
      index < length(items) && verifier.open(*items, static_cast<uint32_t>(index), item),
      NotFound,
      "the program has no inline delegate data %zu",
      index);
  const auto* data = verifier.vector<uint8_t>(item, BackendDelegateInlineData::VT_DATA);
  ET_CHECK_OR_RETURN_ERROR(
      data != nullptr, InvalidProgram, "inline delegate data %zu is corrupted", index);
  *out_data = data->data();
  *out_size = data->size();
  return Error::Ok;
}

Result<FreeableBuffer> Program::LoadSegment(const DataLoader::SegmentInfo& segment_info) const {
  Verifier verifier(program_data_.data(), program_data_.size());
  size_t offset = 0;
  size_t size = 0;
  const Error error = internal::locate_segment(
      verifier,
      View(internal_program_),
      segment_base_offset_,
      segment_info.segment_index,
      &offset,
      &size);
  if (error != Error::Ok) {
    return error;
  }
  return loader_->load(offset, size, segment_info);
}

[[gnu::noinline]] Error Program::load_mutable_subsegment_into(
    size_t mutable_data_segments_index,
    size_t offset_index,
    size_t size,
    void* buffer) const {
  Verifier verifier(program_data_.data(), program_data_.size());
  const View root(internal_program_);
  const auto* segments =
      verifier.vector<Offset<SubsegmentOffsets>>(root, Root::VT_MUTABLE_DATA_SEGMENTS);
  View subsegments;
  const auto* offsets = mutable_data_segments_index < length(segments) &&
          verifier.open(*segments, static_cast<uint32_t>(mutable_data_segments_index), subsegments)
      ? verifier.vector<uint64_t>(subsegments, SubsegmentOffsets::VT_OFFSETS)
      : nullptr;
  ET_CHECK_OR_RETURN_ERROR(
      offset_index < length(offsets),
      NotFound,
      "mutable data segment %zu has no tensor %zu",
      mutable_data_segments_index,
      offset_index);
  const DataLoader::SegmentInfo info(
      SegmentType::Mutable, subsegments.scalar<uint32_t>(SubsegmentOffsets::VT_SEGMENT_INDEX));
  size_t segment_offset = 0;
  size_t segment_size = 0;
  const Error error = internal::locate_segment(
      verifier, root, segment_base_offset_, info.segment_index, &segment_offset, &segment_size);
  if (error != Error::Ok) {
    return error;
  }
  const uint64_t offset = (*offsets)[static_cast<uint32_t>(offset_index)];
  ET_CHECK_OR_RETURN_ERROR(
      offset <= segment_size && size <= segment_size - static_cast<size_t>(offset),
      InvalidProgram,
      "initial state %zu lies outside its segment",
      offset_index);
  return loader_->load_into(segment_offset + static_cast<size_t>(offset), size, info, buffer);
}

} // namespace executorch::runtime
