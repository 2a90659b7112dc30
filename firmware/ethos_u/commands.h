#pragma once

#include <executorch/runtime/core/error.h>

#include "firmware/ethos_u/payload.h"

namespace torch_fusion::ethos_u {

/**
 * Holds the commands of a payload to its memory, before an NPU executes them: reads of region 0
 * lie within the weights, which nothing writes to, and all else in the memory to work in, or in the
 * NPU's own.
 *
 * Decodes the commands as the NPU does, and takes for each operation the range that it can reach of
 * every feature map, of weights, scales and DMA. What an operation addresses depends on registers
 * only, but for the indices of a gather, which may be anything up to their maximum. The ranges are
 * those of `//npu`, from the register descriptions of Vela.
 *
 * @param[in] payload What parse() has made.
 * @param[in] cache_size Bytes of the NPU's own memory, which is region 2; 0 without one, where that
 * is the memory to work in.
 *
 * @retval Error::DelegateInvalidCompatibility A command is none of this NPU, needs a register that
 * no command has set, or reaches beyond the memory; the word is logged.
 */
executorch::runtime::Error check_commands(const Payload& payload, uint32_t cache_size);

} // namespace torch_fusion::ethos_u
