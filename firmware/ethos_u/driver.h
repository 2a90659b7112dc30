#pragma once

#include <cstdint>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

namespace torch_fusion {
namespace ethos_u {

/// The most regions that a command stream can refer to: base pointers of the NPU.
inline constexpr uint32_t kMaxRegions = 8;

/// An NPU of the board, as `ethos_u()` of the board describes it.
struct Device {
  /// Address of its registers.
  uintptr_t base;
  /// Number of its interrupt.
  uint32_t interrupt;
  /// REGIONCFG: which of `memory` each region uses, two bits for each.
  uint32_t region_config;
  /// QCONFIG: the same for the command stream.
  uint32_t queue_config;
  /// AXI_LIMIT0 to AXI_LIMIT3; of U85 MEM_ATTR0 to MEM_ATTR3.
  uint32_t memory[4];
  /// What the NPU's accesses are: bits of Protection.
  uint32_t protection;
  /// How often the driver looks for the end of a run before it gives up, calling ethos_u_wait()
  /// each time.
  uint32_t wait_limit;
};

/// The NPU of this board; generated from its definition.
extern const Device kDevice;

/// What the NPU is to execute.
struct Job {
  /// What the register CONFIG of an NPU is that the commands were made for; the two lowest bytes
  /// count, and the product.
  uint32_t config;
  /// What its register ID has in the bits of the architecture's version.
  uint32_t architecture;
  /// Commands, 16-byte aligned, as is each region.
  executorch::runtime::Span<const uint32_t> commands;
  /// Addresses of the regions.
  executorch::runtime::Span<const uintptr_t> regions;
};

/**
 * Lets the NPU execute commands, and waits for the end.
 *
 * @param[out] cycles Receives the cycles that its counter counted; nullptr: it is left alone.
 *
 * @retval Error::DelegateInvalidCompatibility The commands are for another NPU; both are logged.
 * @retval Error::AccessFailed The NPU does not come out of reset, or not in the security state and
 * privilege that it needs.
 * @retval Error::Internal It stopped with an error: on the bus, in a command, of its watchdog or
 * its memory.
 * @retval Error::InvalidState It did not end within Device::wait_limit, and was reset.
 */
executorch::runtime::Error run(const Device& device, const Job& job, uint64_t* cycles = nullptr);

/// A subgraph that ExecuTorch's Ethos-U backend has compiled.
struct Subgraph {
  /// As of a Job.
  uint32_t config;
  uint32_t architecture;
  executorch::runtime::Span<const uint32_t> commands;
  /// Region 0.
  const uint8_t* weights;
  /// What the NPU works in, inputs and outputs included: regions 1 and 2, which are the same memory
  /// unless a fast one is dedicated to the NPU.
  uint8_t* memory;
  size_t size;
};

/// Lets the NPU compute a subgraph, and caches of the core know of it. Returns what run() does.
executorch::runtime::Error compute(const Device& device, const Subgraph& subgraph);

/// To be called by the handler of the NPU's interrupt: acknowledges it and calls ethos_u_signal().
void handle_interrupt(const Device& device);

} // namespace ethos_u
} // namespace torch_fusion

extern "C" {
/// Writes to, and reads from, a register. Functions of their own, which are never inlined: an
/// emulator without an NPU stops there and lets a model of one act (tools/verify/environment).
void ethos_u_write(uintptr_t base, uint32_t offset, uint32_t value);
uint32_t ethos_u_read(uintptr_t base, uint32_t offset);
/// Lets what was written before be seen by the NPU.
void ethos_u_barrier(void);

/// Called again and again while the NPU works. Does nothing, so that the driver polls; an
/// application with an RTOS defines it, to wait for a semaphore.
void ethos_u_wait(void);
/// Called by handle_interrupt(). Does nothing; an application with an RTOS defines it, to give that
/// semaphore.
void ethos_u_signal(void);
/// Called before the NPU reads memory, and after it wrote to memory. Does nothing; the board's
/// support of a core with a data cache defines it.
void ethos_u_flush(const void* address, size_t size);
void ethos_u_invalidate(const void* address, size_t size);
}
