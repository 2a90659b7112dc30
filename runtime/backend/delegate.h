#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/span.h>

namespace executorch::runtime {

class Program;

/**
 * A delegate of a method that is loaded: a part of the model that a backend computes.
 *
 * ExecuTorch's public headers declare the class and leave it to the runtime.
 */
class BackendDelegate final {
 public:
  /**
   * Lets the backend of a name make a delegate.
   *
   * @param[in] id The backend's name.
   * @param[in] processed What the backend made of the part of the model when it was exported. Must
   *     not be freed by the backend, which may refer to it as long as the delegate is there.
   * @param[in] specs What it was made with.
   * @param[in] context Memory, and the method's name.
   *
   * @retval Error::NotFound The image has no such backend.
   * @retval Error::NotSupported The backend is not available, such as for lack of its device.
   * @returns Any other error of the backend.
   */
  ET_NODISCARD Error init(
      const char* id,
      FreeableBuffer&& processed,
      ArrayRef<CompileSpec> specs,
      BackendInitContext& context);

  /**
   * What the backend made, from a .pte: only this class may ask a Program for it.
   *
   * @param[in] is_segment Whether it is a segment of the file, or within the flatbuffer.
   * @param[in] index Of the segment, or of the data in the flatbuffer.
   * @param[in] id The backend's name.
   */
  static Result<FreeableBuffer>
  load_data(const Program& program, bool is_segment, size_t index, const char* id);

  /// Executes the delegate on a call's arguments.
  ET_NODISCARD Error execute(BackendExecutionContext& context, Span<EValue*> arguments) const {
    return backend_->execute(context, handle_, arguments);
  }

  ~BackendDelegate();

 private:
  FreeableBuffer processed_;
  const BackendInterface* backend_ = nullptr;
  DelegateHandle* handle_ = nullptr;
};

} // namespace executorch::runtime
