#include <executorch/runtime/executor/pte_data_map.h>

#include <cinttypes>

#include "runtime/schema/program_reader.h"

namespace executorch {
namespace runtime {
namespace internal {

Result<PteDataMap> PteDataMap::create(
    DataLoader* loader,
    size_t segment_base_offset,
    const flatbuffers::FlatbufferNamedData* named_data,
    const flatbuffers::FlatbufferDataSegment* segments) {
  ET_CHECK_OR_RETURN_ERROR(
      loader != nullptr && named_data != nullptr && segments != nullptr && segment_base_offset != 0,
      InvalidProgram,
      "named data without segments");
  return PteDataMap(loader, segment_base_offset, named_data, segments);
}

Result<FreeableBuffer> PteDataMap::get_data(std::string_view key) const {
  for (uint32_t i = 0; i < named_data_->size(); ++i) {
    const auto* entry = (*named_data_)[i];
    if (entry->key()->view() == key) {
      const uint32_t index = entry->segment_index();
      ET_CHECK_OR_RETURN_ERROR(
          index < segments_->size(),
          InvalidProgram,
          "named data refers to segment %" PRIu32,
          index);
      const auto* segment = (*segments_)[index];
      const uint64_t offset = segment->offset() + segment_base_offset_;
      ET_CHECK_OR_RETURN_ERROR(
          offset >= segment_base_offset_ && offset < SIZE_MAX && segment->size() < SIZE_MAX,
          InvalidProgram,
          "segment %" PRIu32 " lies beyond the address space",
          index);
      return loader_->load(
          static_cast<size_t>(offset),
          static_cast<size_t>(segment->size()),
          DataLoader::SegmentInfo(DataLoader::SegmentInfo::Type::Constant, index));
    }
  }
  return Error::NotFound;
}

Result<uint32_t> PteDataMap::get_num_keys() const {
  return named_data_->size();
}

Result<const char*> PteDataMap::get_key(uint32_t index) const {
  ET_CHECK_OR_RETURN_ERROR(
      index < named_data_->size(), InvalidArgument, "no named data %" PRIu32, index);
  return (*named_data_)[index]->key()->c_str();
}

} // namespace internal
} // namespace runtime
} // namespace executorch
