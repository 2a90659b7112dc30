#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

namespace torch_fusion {

/// The device's side of tools/commands/infer: a host writes inputs, has the model executed and
/// reads outputs, in frames (firmware/frame.h) on the console. The host asks and the device
/// answers, one at a time, so that an answer is the acknowledgement. Whoever gets none asks again
/// with the same sequence number; the device then answers again, but executes no second time. All
/// numbers are little-endian. docs/console.md describes requests and answers.
class InferenceServer {
 public:
  using Error = executorch::runtime::Error;

  /// An input or output: executorch::aten::ScalarType, number of dimensions, their sizes at most,
  /// the bytes of these, and of an input its place in Application::inputs.
  struct Border {
    int8_t dtype;
    uint8_t dim;
    const int32_t* sizes;
    uint32_t nbytes;
    uint32_t offset;
  };

  /// The application does this for the server.
  class Application {
   public:
    /// The program's name, which is told to the host.
    const char* name;
    /// The size of the .pte.
    uint32_t program_size;
    uint32_t program_crc32;
    /// The memory for all inputs, 16-byte aligned.
    uint8_t* inputs;
    size_t inputs_size;
    uint8_t num_inputs;
    uint8_t num_outputs;

    Application(
        const char* name_,
        uint32_t program_size_,
        uint32_t program_crc32_,
        executorch::runtime::Span<uint8_t> inputs_,
        size_t num_inputs_,
        size_t num_outputs_)
        : name(name_),
          program_size(program_size_),
          program_crc32(program_crc32_),
          inputs(inputs_.data()),
          inputs_size(inputs_.size()),
          num_inputs(static_cast<uint8_t>(num_inputs_)),
          num_outputs(static_cast<uint8_t>(num_outputs_)) {}

    /// The input of that index, which is less than num_inputs.
    virtual Border input(size_t index) const = 0;
    /// The output of that index, which is less than num_outputs.
    virtual Border output(size_t index) const = 0;
    /// Executes the model on the inputs; sets the ticks that it took.
    virtual Error execute(uint32_t* ticks) = 0;
    /// The bytes of an output, after an execution without error.
    virtual executorch::runtime::Span<const uint8_t> result(size_t index) const = 0;

   protected:
    ~Application() = default;
  };

  explicit InferenceServer(Application& application) : application_(application) {}

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

  Application& application_;
  uint16_t sequence_ = 0;
  bool open_ = false;
  /// The result of the last execution. The outputs can be read only after a good one.
  Error error_ = Error::InvalidState;
  uint32_t ticks_ = 0;
  // COBS adds a byte to every 254.
  static inline uint8_t frame_[kMaxData + kOverhead + 8];
};

/// An application that takes updates defines this: it answers requests of types that the server
/// does not know (firmware/update/application.cpp). Every byte of the request is intact; the same
/// request may come again.
/// @param answer Room for 64 bytes.
/// @returns bytes of the answer; 0 refuses the request, as the default does.
size_t answer_other(uint8_t type, const uint8_t* arguments, size_t size, uint8_t* answer);

} // namespace torch_fusion
