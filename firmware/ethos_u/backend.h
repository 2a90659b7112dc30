#pragma once

#include <executorch/runtime/backend/interface.h>

namespace torch_fusion::ethos_u {

/**
 * ExecuTorch's `EthosUBackend`: runs delegates on the NPU of the board.
 *
 * What init() makes of a delegate takes sizeof(Payload) bytes of the method allocator. execute()
 * takes the memory that the NPU works in from the temporary allocator, so that all delegates share
 * it: as much as the delegate says, in whole lines of a data cache, kCacheLine of driver.h.
 *
 * init() holds what the commands address to their memory, see commands.h, and believes no compile
 * spec.
 */
class Backend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override {
    return true;
  }

  /**
   * @retval Error::DelegateInvalidCompatibility The payload is corrupted, or for another NPU.
   * @retval Error::InvalidArgument The payload is not aligned.
   * @retval Error::MemoryAllocationFailed The method allocator has too little memory.
   */
  ET_NODISCARD executorch::runtime::Result<executorch::runtime::DelegateHandle*> init(
      executorch::runtime::BackendInitContext& context,
      executorch::runtime::FreeableBuffer* processed,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> compile_specs) const override;

  /**
   * @param[in] args Tensors: the inputs, then the outputs, each of the size that the payload says.
   *
   * @retval Error::InvalidArgument The arguments are no such tensors, or an output is a constant.
   * @retval Error::MemoryAllocationFailed The temporary allocator has too little memory.
   * @returns What run() of driver.h returns.
   */
  ET_NODISCARD executorch::runtime::Error execute(
      executorch::runtime::BackendExecutionContext& context,
      executorch::runtime::DelegateHandle* handle,
      executorch::runtime::Span<executorch::runtime::EValue*> args) const override;
};

/// The image's backend in the registry.
extern Backend backend;

} // namespace torch_fusion::ethos_u
