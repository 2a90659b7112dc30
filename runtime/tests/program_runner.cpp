#include "runtime/tests/program_runner.h"

#include <cstdio>
#include <cstdlib>

namespace torch_fusion::testing {

namespace {

// The limit for memory that corrupted programs request.
constexpr size_t kLargestBlock = 1 << 20;
constexpr size_t kTempArenaSize = 4096;

} // namespace

std::vector<uint8_t> read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::abort();
  }
  std::vector<uint8_t> bytes;
  for (int byte = std::fgetc(file); byte != EOF; byte = std::fgetc(file)) {
    bytes.push_back(static_cast<uint8_t>(byte));
  }
  std::fclose(file);
  return bytes;
}

Error ProgramRunner::load(const char* method_name, size_t method_arena_size) {
  program_.emplace(Program::load(&loader_, Program::Verification::InternalConsistency));
  if (!program_->ok()) {
    return program_->error();
  }
  const Result<MethodMeta> meta = program().method_meta(method_name);
  if (!meta.ok()) {
    return meta.error();
  }
  for (size_t i = 0; i < meta->num_memory_planned_buffers() && i < 16; ++i) {
    const int64_t size = *meta->memory_planned_buffer_size(i);
    const bool is_sane = size >= 0 && size <= static_cast<int64_t>(kLargestBlock);
    planned_.emplace_back(is_sane ? static_cast<size_t>(size) : 0);
    planned_spans_.push_back({planned_.back().data(), planned_.back().size()});
  }
  method_arena_.emplace(method_arena_size);
  method_allocator_.emplace(static_cast<uint32_t>(method_arena_size), method_arena_->data());
  temp_arena_.emplace(kTempArenaSize);
  temp_allocator_.emplace(static_cast<uint32_t>(kTempArenaSize), temp_arena_->data());
  planned_memory_.emplace(executorch::runtime::Span<executorch::runtime::Span<uint8_t>>(
      planned_spans_.data(), planned_spans_.size()));
  memory_manager_.emplace(&*method_allocator_, &*planned_memory_, &*temp_allocator_);
  method_.emplace(program().load_method(method_name, &*memory_manager_));
  return method_->error();
}

Error ProgramRunner::set_inputs() {
  const MethodMeta meta = method().method_meta();
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const Result<Tag> tag = meta.input_tag(i);
    if (!tag.ok()) {
      return tag.error();
    }
    if (*tag != Tag::Tensor) {
      // A copy of the value, as only that is accepted.
      std::vector<EValue> inputs(meta.num_inputs());
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
      const Error get_error = method().get_inputs(inputs.data(), inputs.size());
#pragma GCC diagnostic pop
      if (get_error != Error::Ok) {
        return get_error;
      }
      const Error error = method().set_input(inputs[i], i);
      if (error != Error::Ok) {
        return error;
      }
      continue;
    }
    const Result<TensorInfo> info = meta.input_tensor_meta(i);
    if (!info.ok()) {
      return info.error();
    }
    if (info->nbytes() > kLargestBlock) {
      return Error::InvalidArgument;
    }
    buffers_.emplace_back(info->nbytes());
    uint8_t* data = buffers_.back().data();
    if (info->scalar_type() == ScalarType::Float) {
      for (size_t j = 0; j < info->nbytes() / sizeof(float); ++j) {
        reinterpret_cast<float*>(data)[j] = static_cast<float>(j % 7) * 0.25f - 0.5f;
      }
    } else {
      for (size_t j = 0; j < info->nbytes(); ++j) {
        data[j] = j % 2;
      }
    }
    TensorImpl impl(
        info->scalar_type(),
        static_cast<ssize_t>(info->sizes().size()),
        const_cast<int32_t*>(info->sizes().data()),
        data,
        const_cast<uint8_t*>(info->dim_order().data()));
    const Error error = method().set_input(EValue(Tensor(&impl)), i);
    if (error != Error::Ok) {
      return error;
    }
  }
  return Error::Ok;
}

Error ProgramRunner::set_outputs() {
  const MethodMeta meta = method().method_meta();
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    const Result<TensorInfo> info = meta.output_tensor_meta(i);
    if (info.ok() && !info->is_memory_planned()) {
      if (info->nbytes() > kLargestBlock) {
        return Error::InvalidArgument;
      }
      buffers_.emplace_back(info->nbytes());
      const Error error = method().set_output_data_ptr(buffers_.back().data(), info->nbytes(), i);
      if (error != Error::Ok) {
        return error;
      }
    }
  }
  return Error::Ok;
}

Error ProgramRunner::run() {
  Error error = set_inputs();
  if (error == Error::Ok) {
    error = set_outputs();
  }
  return error == Error::Ok ? method().execute() : error;
}

std::vector<float> ProgramRunner::output(size_t index) {
  const Tensor& tensor = method().get_output(index).toTensor();
  const float* data = tensor.const_data_ptr<float>();
  return std::vector<float>(data, data + tensor.numel());
}

} // namespace torch_fusion::testing
