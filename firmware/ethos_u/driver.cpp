#include "firmware/ethos_u/driver.h"

#include <cinttypes>

#include <executorch/runtime/platform/assert.h>
#include <executorch/runtime/platform/log.h>

#include "firmware/ethos_u/registers.h"

extern "C" {

ET_WEAK uint32_t ethos_u_wait(uint32_t) {
  return 0;
}
ET_WEAK void ethos_u_signal(void) {}
}

namespace torch_fusion::ethos_u {

using executorch::runtime::Error;

namespace {

/// The architecture's version in ID: bits 16 to 31.
constexpr uint32_t kArchitecture = 0xFFFF0000;
/// CONFIG has the product, the size of the internal memory and that of the multipliers; the rest is
/// the format of commands.
constexpr uint32_t kConfiguration = 0xF000FF0F;
/// Reads of STATUS until a reset has ended.
constexpr uint32_t kResetLimit = 100000;
constexpr uint32_t kErrors = kBusError | kCommandError | kWatchdogFault | kEccFault | kBranchFault;
/// Bits of PMCR and PMCNTENSET.
constexpr uint32_t kPmuEnable = 1u << 0;
constexpr uint32_t kPmuResetCycles = 1u << 2;
constexpr uint32_t kPmuCycles = 1u << 31;

/// Set by ethos_u_count_cycles().
uint64_t* counted_cycles = nullptr;

class Registers final {
 public:
  explicit Registers(uintptr_t base) : base_(base) {}

  uint32_t operator[](Register name) const {
    return ethos_u_read(base_, static_cast<uint32_t>(name));
  }
  void set(Register name, uint32_t value, uint32_t index = 0) const {
    ethos_u_write(base_, static_cast<uint32_t>(name) + 4 * index, value);
  }
  /// Sets a register of 64 bits.
  void set_address(Register name, uintptr_t address, uint32_t index = 0) const {
    set(name, static_cast<uint32_t>(address), 2 * index);
    set(name, static_cast<uint32_t>(static_cast<uint64_t>(address) >> 32), 2 * index + 1);
  }

 private:
  uintptr_t base_;
};

Error reset(const Device& device, const Registers& registers) {
  registers.set(Register::kReset, device.protection);
  uint32_t count = 0;
  while ((registers[Register::kStatus] & kInReset) != 0) {
    ET_CHECK_OR_RETURN_ERROR(
        ++count < kResetLimit, AccessFailed, "the NPU does not come out of its reset");
  }
  const uint32_t protection = registers[Register::kProtection];
  ET_CHECK_OR_RETURN_ERROR(
      protection == device.protection,
      AccessFailed,
      "the NPU's PROT is %" PRIu32 ", the board needs %" PRIu32
      ": reset it from the security state and privilege that it is to have",
      protection,
      device.protection);
  return Error::Ok;
}

Error check(const Job& job, const Registers& registers) {
  const uint32_t id = registers[Register::kId];
  const uint32_t config = registers[Register::kConfig];
  ET_CHECK_OR_RETURN_ERROR(
      ((config ^ job.config) & kConfiguration) == 0 &&
          ((id ^ job.architecture) & kArchitecture) == 0,
      DelegateInvalidCompatibility,
      "the program is for an NPU with CONFIG 0x%08" PRIx32 " and ID 0x%08" PRIx32
      ", this one has 0x%08" PRIx32 " and 0x%08" PRIx32,
      job.config,
      job.architecture,
      config,
      id);
  return Error::Ok;
}

/// Waits until the NPU has stopped. Returns its STATUS.
Error wait(const Device& device, const Registers& registers, uint32_t& status) {
  status = 0;
  uint32_t left = device.timeout_ms;
  // An interrupt's handler clears what it raised; that the end was reached stays.
  for (uint32_t count = 0; (status & (kEndReached | kErrors)) == 0; ++count) {
    if (count >= device.wait_limit || left == 0) {
      // The NPU would otherwise go on writing to memory that is somebody else's by then.
      registers.set(Register::kReset, device.protection);
      ET_LOG(Error, "the NPU does not end, and its time is over: STATUS is 0x%08" PRIx32, status);
      return Error::InvalidState;
    }
    const uint32_t waited = ethos_u_wait(left);
    left -= waited < left ? waited : left;
    status = registers[Register::kStatus];
  }
  return Error::Ok;
}

/// Returns the reason for which the NPU has stopped.
Error result(uint32_t status) {
  ET_CHECK_OR_RETURN_ERROR(
      (status & kErrors) == 0 && (status & kEndReached) != 0,
      Internal,
      "the NPU stopped with STATUS 0x%08" PRIx32 ":%s%s%s%s%s%s",
      status,
      (status & kBusError) != 0 ? " bus error" : "",
      (status & kCommandError) != 0 ? " unknown command" : "",
      (status & kWatchdogFault) != 0 ? " watchdog" : "",
      (status & kEccFault) != 0 ? " memory error" : "",
      (status & kBranchFault) != 0 ? " branch fault" : "",
      (status & kEndReached) == 0 ? " before the end of the commands" : "");
  return Error::Ok;
}

} // namespace

Error run(const Device& device, const Job& job, uint64_t* cycles) {
  const Registers registers(device.base);
  Error error = reset(device, registers);
  if (error == Error::Ok) {
    error = check(job, registers);
  }
  if (error != Error::Ok) {
    return error;
  }
  const Registers counters(device.base + (job.config >> kProductBit == kU85 ? kPmuOffsetOfU85 : 0));
  if (cycles != nullptr) {
    counters.set(Register::kPmuControl, kPmuEnable | kPmuResetCycles);
    counters.set(Register::kPmuCountersEnable, kPmuCycles);
  }
  registers.set_address(Register::kQueueBase, reinterpret_cast<uintptr_t>(job.commands.data()));
  registers.set(Register::kQueueSize, static_cast<uint32_t>(4 * job.commands.size()));
  registers.set(Register::kQueueConfig, device.queue_config);
  registers.set(Register::kRegionConfig, device.region_config);
  for (uint32_t i = 0; i < 4; ++i) {
    registers.set(Register::kMemory0, device.memory[i], i);
  }
  for (uint32_t i = 0; i < job.regions.size(); ++i) {
    registers.set_address(Register::kBasePointer0, job.regions[i], i);
  }
  // Everything written is in memory before the NPU starts.
  ethos_u_barrier();
  registers.set(Register::kCommand, kRun);
  uint32_t status = 0;
  error = wait(device, registers, status);
  if (error != Error::Ok) {
    return error;
  }
  if (cycles != nullptr) {
    // The count is read before the power is turned off, which clears it.
    const uint32_t low = counters[Register::kPmuCycleCounterLow];
    *cycles = static_cast<uint64_t>(counters[Register::kPmuCycleCounterHigh]) << 32 | low;
  }
  registers.set(Register::kCommand, kClearInterrupt | kClockOff | kPowerOff);
  ethos_u_barrier();
  return result(status);
}

Error compute(const Device& device, const Subgraph& subgraph) {
  const auto memory = reinterpret_cast<uintptr_t>(subgraph.memory);
  const uintptr_t regions[] = {
      reinterpret_cast<uintptr_t>(subgraph.weights),
      memory,
      device.cache_size != 0 ? device.cache : memory};
  ethos_u_flush(subgraph.memory, subgraph.size);
  const Error error = run(
      device, {subgraph.config, subgraph.architecture, subgraph.commands, regions}, counted_cycles);
  ethos_u_invalidate(subgraph.memory, subgraph.size);
  return error;
}

void handle_interrupt(const Device& device) {
  Registers(device.base).set(Register::kCommand, kClearInterrupt);
  // Otherwise the handler could end before the NPU has taken its interrupt back, and be called
  // again.
  ethos_u_barrier();
  ethos_u_signal();
}

} // namespace torch_fusion::ethos_u

void ethos_u_count_cycles(uint64_t* cycles) {
  torch_fusion::ethos_u::counted_cycles = cycles;
}
