#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

namespace torch_fusion::ethos_u {

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
  /// AXI_LIMIT0 to AXI_LIMIT3; on U85 MEM_ATTR0 to MEM_ATTR3.
  uint32_t memory[4];
  /// Attributes of the NPU's accesses: bits of Protection.
  uint32_t protection;
  /// The number of times that the driver looks for the end of a run before it gives up, calling
  /// ethos_u_wait() each time. It bounds the time of a driver that polls.
  uint32_t wait_limit;
  /// Milliseconds of a run that the driver waits in ethos_u_wait(). Bounds the time of one that
  /// waits for the interrupt.
  uint32_t timeout_ms;
  /// Address and bytes of the SRAM that is the NPU's alone, region 2; 0 without one, where that is
  /// the memory to work in.
  uintptr_t cache;
  uint32_t cache_size;
};

/// The NPU of this board; generated from its definition.
extern const Device kDevice;

/// Bytes of a line of the data cache of Cortex-M7, M52, M55 and M85 (DminLine of CTR in their
/// Technical Reference Manuals). Memory that the NPU works in begins and ends at a multiple of it:
/// ethos_u_invalidate() drops whole lines, with whatever the core has written to them meanwhile.
inline constexpr size_t kCacheLine = 32;

/// The work for the NPU.
struct Job {
  /// The register CONFIG of the NPU that the commands were made for; the two lowest bytes count,
  /// and the product.
  uint32_t config;
  /// The bits of the architecture's version in its register ID.
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
 * @retval Error::InvalidState It did not end within Device::wait_limit looks or
 * Device::timeout_ms, and was reset.
 */
executorch::runtime::Error run(const Device& device, const Job& job, uint64_t* cycles = nullptr);

/// A subgraph that ExecuTorch's Ethos-U backend has compiled.
struct Subgraph {
  /// The same as in a Job.
  uint32_t config;
  uint32_t architecture;
  executorch::runtime::Span<const uint32_t> commands;
  /// Region 0.
  const uint8_t* weights;
  /// The NPU's working memory, inputs and outputs included: region 1, and region 2 if the device
  /// has no memory of its own for that. It begins at a multiple of kCacheLine; nothing writes to
  /// the rest of its last line while the NPU works.
  uint8_t* memory;
  size_t size;
};

/// Lets the NPU compute a subgraph, and caches of the core know of it. Returns what run() does.
///
/// Privileged code calls it, and one thread at a time: threads that share the NPU take a mutex
/// around an inference.
executorch::runtime::Error compute(const Device& device, const Subgraph& subgraph);

/**
 * Enables the NPU's interrupt in the core's NVIC, after it has forgotten one that is pending. For
 * applications without an RTOS that has a function for this.
 *
 * @param[in] priority The interrupt's byte in NVIC_IPRn: of its bits the chip has the upper ones,
 * and lower numbers go first.
 */
void enable_interrupt(const Device& device, uint8_t priority);

/**
 * To be called by the handler of the NPU's interrupt: acknowledges it and calls ethos_u_signal().
 * With a semaphore of Zephyr's, the whole of what an application has for it is
 *
 *     K_SEM_DEFINE(npu_semaphore, 0, 1);
 *
 *     uint32_t ethos_u_wait(uint32_t milliseconds) {
 *       const uint32_t start = k_uptime_get_32();
 *       k_sem_take(&npu_semaphore, K_MSEC(milliseconds));
 *       return k_uptime_get_32() - start + 1;
 *     }
 *     void ethos_u_signal(void) {
 *       k_sem_give(&npu_semaphore);
 *     }
 *     void npu_handler(const void*) {
 *       torch_fusion::ethos_u::handle_interrupt(torch_fusion::ethos_u::kDevice);
 *     }
 *
 * and once, with the number of the interrupt, IRQ_CONNECT() and irq_enable().
 */
void handle_interrupt(const Device& device);

} // namespace torch_fusion::ethos_u

extern "C" {
/// Writes to, and reads from, a register. Functions of their own, which are never inlined: an
/// emulator without an NPU stops there and lets a model of one act (tools/verify/environment).
void ethos_u_write(uintptr_t base, uint32_t offset, uint32_t value);
uint32_t ethos_u_read(uintptr_t base, uint32_t offset);
/// Lets what was written before be seen by the NPU.
void ethos_u_barrier(void);

/// Called while the NPU works, until it has ended or its time is over. Returns 0 at once, so that
/// the driver polls; an application with an RTOS defines it, to wait for a semaphore: for
/// `milliseconds` at most, and it returns how many have passed, rounded up, so at least 1. It may
/// return early; the driver looks at the NPU and calls it again, with what is left of
/// Device::timeout_ms.
uint32_t ethos_u_wait(uint32_t milliseconds);
/// Called by handle_interrupt(), in the interrupt's handler. Does nothing; an application with an
/// RTOS defines it, to give that semaphore.
void ethos_u_signal(void);

/// Called before the NPU uses memory, and after it wrote to memory. On cores that may have a data
/// cache they clean and invalidate, and invalidate, its lines by address if CCR says that it is on,
/// and do nothing on others; a chip with a different cache defines both.
///
/// Commands and weights are flushed once, when a program is loaded: a .pte may be in RAM. Those of
/// a compiled model are constants of the image; whoever copies them to RAM flushes them.
void ethos_u_flush(const void* address, size_t size);
void ethos_u_invalidate(const void* address, size_t size);

/// Lets the driver put the NPU's cycles, by its own counter, into a variable after each execution
/// from now on; null ends it. An image whose application doesn't call it has no code for that, if
/// it is linked with link-time optimization.
void ethos_u_count_cycles(uint64_t* cycles);
}
