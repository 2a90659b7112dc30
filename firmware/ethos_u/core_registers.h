#pragma once

#include <cstddef>
#include <cstdint>

/// Does the driver's work on registers of the core by any access class, which has
/// `uint32_t read(uint32_t address)`, `void write(uint32_t address, uint32_t value)` and
/// `void barrier()`, a DSB. Addresses and bits: Armv8-M Architecture Reference Manual (DDI 0553),
/// section D1.2, where the registers are listed by name; Armv7-M Architecture Reference Manual (DDI
/// 0403E), B2.2.7, B3.2.8 and B3.4, has the same.
namespace torch_fusion::ethos_u {

/// CCR, Configuration and Control Register. DC says whether the data cache is on; it is zero on
/// cores without one.
inline constexpr uint32_t kCcr = 0xE000ED14;
inline constexpr uint32_t kCcrDc = 1u << 16;
/// DCIMVAC and DCCIMVAC: invalidate, and clean and invalidate, the data cache's line of an address.
inline constexpr uint32_t kDcimvac = 0xE000EF5C;
inline constexpr uint32_t kDccimvac = 0xE000EF70;
/// NVIC_ISERn, NVIC_ICPRn and NVIC_IPRn: enable, forget that it is pending, priority.
inline constexpr uint32_t kIser = 0xE000E100;
inline constexpr uint32_t kIcpr = 0xE000E280;
inline constexpr uint32_t kIpr = 0xE000E400;

/**
 * Does an operation with all lines of the data cache that memory has a part of, if it is on.
 *
 * @param[in] operation kDcimvac or kDccimvac.
 * @param[in] line Bytes of a line.
 */
template <class Core>
void maintain_cache(Core& core, uint32_t operation, uintptr_t address, size_t size, uint32_t line) {
  if ((core.read(kCcr) & kCcrDc) == 0) {
    return;
  }
  // Earlier writes are in the cache, and later operations find memory as it is.
  core.barrier();
  const uintptr_t end = address + size;
  for (uintptr_t each = address & ~static_cast<uintptr_t>(line - 1); each < end; each += line) {
    core.write(operation, static_cast<uint32_t>(each));
  }
  core.barrier();
}

/// Enables an interrupt of the NVIC with a priority, the byte of it in NVIC_IPRn. Words only, as
/// Armv6-M and Armv8-M Baseline want it.
template <class Core>
void enable_interrupt(Core& core, uint32_t interrupt, uint8_t priority) {
  const uint32_t shift = interrupt % 4 * 8;
  const uint32_t others = core.read(kIpr + interrupt / 4 * 4) & ~(0xFFu << shift);
  core.write(kIpr + interrupt / 4 * 4, others | static_cast<uint32_t>(priority) << shift);
  core.write(kIcpr + interrupt / 32 * 4, 1u << interrupt % 32);
  core.barrier();
  core.write(kIser + interrupt / 32 * 4, 1u << interrupt % 32);
}

} // namespace torch_fusion::ethos_u
