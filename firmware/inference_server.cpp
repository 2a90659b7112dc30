#include "firmware/inference_server.h"

#include <cstring>

#include "firmware/board.h"
#include "firmware/frame.h"

namespace torch_fusion {

namespace {

using executorch::runtime::Span;

constexpr uint8_t kVersion = 1;
constexpr uint8_t kAnswer = 0x80;
constexpr size_t kHeaderSize = 4;

enum Request : uint8_t { kHello = 1, kDescribe, kWrite, kExecute, kRead, kBye };

uint32_t load32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint8_t* store32(uint8_t* bytes, uint32_t value) {
  std::memcpy(bytes, &value, sizeof(value));
  return bytes + sizeof(value);
}

} // namespace

__attribute__((weak)) size_t answer_other(uint8_t, const uint8_t*, size_t, uint8_t*) {
  return 0;
}

void InferenceServer::run() {
  open_ = true;
  while (open_) {
    const size_t size = frame_receive(frame_, sizeof(frame_));
    const size_t answer_size = answer(size);
    if (answer_size > 0) {
      frame_send(frame_, answer_size);
    }
  }
}

/// Answers the request in frame_ there. Returns the answer's size, 0 for none.
size_t InferenceServer::answer(size_t request_size) {
  if (request_size < kHeaderSize) {
    return 0;
  }
  const uint8_t type = frame_[0];
  const uint16_t sequence = static_cast<uint16_t>(frame_[2] | frame_[3] << 8);
  const bool again = sequence == sequence_;
  // A request that is neither the last one again nor the next one belongs to another conversation.
  if (type != kHello && !again && sequence != static_cast<uint16_t>(sequence_ + 1)) {
    return 0;
  }
  sequence_ = sequence;
  frame_[0] = type | kAnswer;
  frame_[1] = static_cast<uint8_t>(Status::Ok);
  uint8_t* const arguments = frame_ + kHeaderSize;
  const size_t size = request_size - kHeaderSize;
  switch (type) {
    case kHello:
      return hello();
    case kDescribe:
      return describe(arguments, size);
    case kWrite:
      return write(arguments, size);
    case kExecute:
      return execute(again, arguments, size);
    case kRead:
      return read(arguments, size);
    case kBye:
      open_ = false;
      return kHeaderSize;
    default: {
      const size_t bytes = answer_other(type, arguments, size, arguments);
      return bytes == 0 ? refuse(Status::Malformed) : kHeaderSize + bytes;
    }
  }
}

size_t InferenceServer::refuse(Status status) {
  frame_[1] = static_cast<uint8_t>(status);
  return kHeaderSize;
}

size_t InferenceServer::hello() {
  uint8_t* end = frame_ + kHeaderSize;
  *end++ = kVersion;
  *end++ = application_.num_inputs;
  *end++ = application_.num_outputs;
  *end++ = 0;
  end = store32(end, kMaxData);
  end = store32(end, static_cast<uint32_t>(application_.inputs_size));
  end = store32(end, application_.program_size);
  end = store32(end, application_.program_crc32);
  end = store32(end, board_clock.ticks_per_second);
  const size_t length = std::strlen(application_.name);
  const size_t shown = length < kMaxData / 2 ? length : kMaxData / 2;
  std::memcpy(end, application_.name, shown);
  return static_cast<size_t>(end + shown - frame_);
}

size_t InferenceServer::describe(const uint8_t* arguments, size_t size) {
  if (size != 2) {
    return refuse(Status::Malformed);
  }
  const bool is_output = arguments[0] != 0;
  const size_t index = arguments[1];
  if (index >= (is_output ? application_.num_outputs : application_.num_inputs)) {
    return refuse(Status::OutOfRange);
  }
  const Border border = is_output ? application_.output(index) : application_.input(index);
  if (border.dim * sizeof(int32_t) > kMaxData) {
    return refuse(Status::OutOfRange);
  }
  // Outputs follow one another without a gap.
  size_t offset = is_output ? 0 : border.offset;
  for (size_t i = 0; is_output && i < index; ++i) {
    offset += application_.output(i).nbytes;
  }
  uint8_t* end = frame_ + kHeaderSize;
  *end++ = static_cast<uint8_t>(border.dtype);
  *end++ = border.dim;
  *end++ = 0;
  *end++ = 0;
  end = store32(end, static_cast<uint32_t>(offset));
  end = store32(end, border.nbytes);
  for (size_t i = 0; i < border.dim; ++i) {
    end = store32(end, static_cast<uint32_t>(border.sizes[i]));
  }
  return static_cast<size_t>(end - frame_);
}

size_t InferenceServer::write(const uint8_t* arguments, size_t size) {
  if (size < sizeof(uint32_t)) {
    return refuse(Status::Malformed);
  }
  const uint32_t offset = load32(arguments);
  const size_t bytes = size - sizeof(uint32_t);
  if (offset > application_.inputs_size || bytes > application_.inputs_size - offset) {
    return refuse(Status::OutOfRange);
  }
  std::memcpy(application_.inputs + offset, arguments + sizeof(uint32_t), bytes);
  return kHeaderSize;
}

size_t InferenceServer::execute(bool again, const uint8_t* arguments, size_t size) {
  const uint32_t wanted = size == sizeof(uint32_t) ? load32(arguments) : UINT32_MAX;
  if (wanted > kMaxData) {
    return refuse(Status::Malformed);
  }
  if (!again) {
    ticks_ = 0;
    error_ = application_.execute(&ticks_);
  }
  uint8_t* end = frame_ + kHeaderSize;
  end = store32(end, static_cast<uint32_t>(error_));
  end = store32(end, ticks_);
  const size_t bytes = error_ == Error::Ok ? copy_outputs(0, end, wanted) : 0;
  return static_cast<size_t>(end + bytes - frame_);
}

size_t InferenceServer::read(const uint8_t* arguments, size_t size) {
  if (size != 2 * sizeof(uint32_t)) {
    return refuse(Status::Malformed);
  }
  const uint32_t offset = load32(arguments);
  const uint32_t bytes = load32(arguments + sizeof(uint32_t));
  if (error_ != Error::Ok || bytes > kMaxData ||
      copy_outputs(offset, frame_ + kHeaderSize, bytes) != bytes) {
    return refuse(Status::OutOfRange);
  }
  return kHeaderSize + bytes;
}

size_t InferenceServer::copy_outputs(size_t offset, uint8_t* destination, size_t size) const {
  size_t copied = 0;
  for (size_t i = 0; i < application_.num_outputs && copied < size; ++i) {
    const Span<const uint8_t> output = application_.result(i);
    if (offset < output.size()) {
      const size_t rest = output.size() - offset;
      const size_t part = rest < size - copied ? rest : size - copied;
      std::memcpy(destination + copied, output.data() + offset, part);
      copied += part;
      offset = 0;
    } else {
      offset -= output.size();
    }
  }
  return copied;
}

} // namespace torch_fusion
