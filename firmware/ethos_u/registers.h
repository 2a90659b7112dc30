#pragma once

#include <cstdint>

/// Registers of Ethos-U55, U65 and U85: offsets from the base address, and the bits that the driver
/// uses. The numbers are those of `ethosu.vela.ethos_u55_regs` in the wheel of ethos-u-vela and,
/// for U85, of `ethos_u85_interface.hpp` in its source distribution; the names are Arm's (102420,
/// Ethos-U55 NPU Technical Reference Manual, section 4.4 "Register descriptions").
namespace torch_fusion::ethos_u {

enum class Register : uint32_t {
  kId = 0x000,
  kStatus = 0x004,
  kCommand = 0x008,
  kReset = 0x00C,
  kQueueBase = 0x010,
  kQueueConfig = 0x01C,
  kQueueSize = 0x020,
  kProtection = 0x024,
  kConfig = 0x028,
  kRegionConfig = 0x03C,
  /// AXI_LIMIT0 to 3; on U85 MEM_ATTR0 to 3.
  kMemory0 = 0x040,
  kBasePointer0 = 0x080,
  kPmuControl = 0x180,
  kPmuCountersEnable = 0x184,
  kPmuCycleCounterLow = 0x1A0,
  kPmuCycleCounterHigh = 0x1A4,
};

/// The distance of U85's registers of counters from those of U55 and U65.
inline constexpr uint32_t kPmuOffsetOfU85 = 0x1000;
/// CONFIG's product, and U85's number.
inline constexpr unsigned kProductBit = 28;
inline constexpr uint32_t kU85 = 2;

/// Bits of STATUS.
enum Status : uint32_t {
  kBusError = 1u << 2,
  kInReset = 1u << 3,
  kCommandError = 1u << 4,
  kEndReached = 1u << 5,
  kWatchdogFault = 1u << 7,
  kEccFault = 1u << 8,
  /// Only U85 has these.
  kBranchFault = 1u << 9,
};

/// Bits of CMD.
enum Command : uint32_t {
  kRun = 1u << 0,
  kClearInterrupt = 1u << 1,
  /// Lets the clock and the power be turned off while the NPU is idle.
  kClockOff = 1u << 2,
  kPowerOff = 1u << 3,
};

/// Bits of RESET and PROT.
enum Protection : uint32_t { kPrivileged = 1u << 0, kNonSecure = 1u << 1 };

} // namespace torch_fusion::ethos_u
