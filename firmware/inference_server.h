#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/executor/method.h>

namespace torch_fusion {

/// The device's side of tools/commands/infer: a host writes inputs, has the method executed and
/// reads outputs, in frames (firmware/frame.h) on the console. The host asks and the device
/// answers, one at a time, so that an answer is the acknowledgement. Whoever gets none asks again
/// with the same sequence number; the device then answers again, but executes no second time. All
/// numbers are little-endian. docs/console.md describes requests and answers.
class InferenceServer {
 public:
  using Method = executorch::runtime::Method;
  using Error = executorch::runtime::Error;

  /// What the application does for the server.
  struct Application {
    /// The program's name, which is told to the host.
    const char* name;
    const void* program;
    size_t program_size;
    /// Where inputs are put, all of them, 16-byte aligned.
    uint8_t* inputs;
    size_t inputs_size;
    /// Executes the method on the inputs; sets the ticks that it took.
    Error (*execute)(Method& method, uint32_t* ticks);
  };

  InferenceServer(Method& method, const Application& application)
      : method_(method), application_(application) {}

  /// Answers requests until the host says bye. The stream is expected to be just after a zero.
  void run();

 private:
  /// Bytes of data in a frame, beside up to kOverhead others.
  static constexpr size_t kMaxData = 512;
  static constexpr size_t kOverhead = 16;

  enum class Status : uint8_t { Ok, Malformed, OutOfRange };

  size_t answer(size_t request_size);
  size_t hello();
  size_t describe(const uint8_t* arguments, size_t size);
  size_t write(const uint8_t* arguments, size_t size);
  size_t execute(bool again, const uint8_t* arguments, size_t size);
  size_t read(const uint8_t* arguments, size_t size);

  /// Copies bytes of the outputs, of `size` as many as there are. Returns their number.
  size_t copy_outputs(size_t offset, uint8_t* destination, size_t size) const;
  size_t refuse(Status status);

  Method& method_;
  const Application& application_;
  uint16_t sequence_ = 0;
  bool open_ = false;
  /// Of the last execution. Only after a good one the outputs are there to be read.
  Error error_ = Error::InvalidState;
  uint32_t ticks_ = 0;
  // COBS adds a byte to every 254.
  static inline uint8_t frame_[kMaxData + kOverhead + 8];
};

} // namespace torch_fusion
