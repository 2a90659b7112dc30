#include <executorch/runtime/executor/pte_data_map.h>

#include <cinttypes>

#include <executorch/runtime/executor/program.h>

#include "runtime/schema/program_reader.h"

namespace executorch::runtime {
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

// Named data are verified, and the map is made, when they are first asked for: most programs have
// none, and most applications don't ask. The first call is not to be made by two threads at once,
// nor on a constant object.
Result<const NamedDataMap*> Program::get_named_data_map() const {
  using executorch_flatbuffer::DataSegment;
  using executorch_flatbuffer::NamedData;
  using flatbuffers::Offset;
  using flatbuffers::View;
  using Root = executorch_flatbuffer::Program;
  if (!pte_data_map_.has_value()) {
    flatbuffers::Verifier verifier(program_data_.data(), program_data_.size());
    const View root(internal_program_);
    View table;
    const auto* named_data = verifier.vector<Offset<NamedData>>(root, Root::VT_NAMED_DATA);
    if (flatbuffers::length(named_data) == 0) {
      return Error::NotFound;
    }
    for (uint32_t i = 0; i < named_data->size(); ++i) {
      ET_CHECK_OR_RETURN_ERROR(
          verifier.open(*named_data, i, table) &&
              verifier.string(table, NamedData::VT_KEY) != nullptr,
          InvalidProgram,
          "named data %" PRIu32 " are corrupted",
          i);
    }
    const auto* segments = verifier.vector<Offset<DataSegment>>(root, Root::VT_SEGMENTS);
    for (uint32_t i = 0; i < flatbuffers::length(segments); ++i) {
      verifier.open(*segments, i, table);
    }
    ET_CHECK_OR_RETURN_ERROR(verifier.ok(), InvalidProgram, "the segments are corrupted");
    Result<internal::PteDataMap> map =
        internal::PteDataMap::create(loader_, segment_base_offset_, named_data, segments);
    if (!map.ok()) {
      return map.error();
    }
    const_cast<Program*>(this)->pte_data_map_.emplace(std::move(*map));
  }
  return &*pte_data_map_;
}

} // namespace executorch::runtime
