// The driver on registers, and with functions of an application, that the test answers for.

#include "firmware/ethos_u/driver.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "firmware/ethos_u/core_registers.h"
#include "firmware/ethos_u/registers.h"
#include "runtime/tests/check.h"
#include "runtime/tests/log.h"

namespace torch_fusion::ethos_u {
namespace {

using executorch::runtime::Error;
using executorch::runtime::Span;
using testing::take_log;

constexpr uint32_t kConfigOf128 = 0x00001807;
constexpr uint32_t kArchitecture = 0x10060000;
constexpr uint32_t kConfigOfU85 = 0x20000008;
constexpr Device kTested = {0x48102000, 56, 0x2, 2, {1, 2, 3, 4}, kPrivileged, 50, 10000, 0, 0};

/// An NPU that ends as the test says.
struct Npu {
  std::map<uint32_t, uint32_t> registers;
  std::vector<uint32_t> written;
  uint32_t status_at_end = kEndReached | 2;
  /// Reads of STATUS until it ends.
  uint32_t delay = 3;
  bool comes_out_of_reset = true;
  uint32_t protection = kPrivileged;
  bool is_running = false;
  uint32_t reads = 0;
  uint32_t commands_at_start = 0;
} npu;

/// The behaviour of the application's functions, and the events: letters in their order.
struct Application {
  /// ethos_u_wait() returns these, the last one again and again.
  std::vector<uint32_t> waited = {0};
  /// Its arguments.
  std::vector<uint32_t> asked;
  std::string events;
} application;

constexpr uint32_t at(Register name) {
  return static_cast<uint32_t>(name);
}

alignas(16) const uint32_t kCommands[] = {1, 2, 3};

Error execute(uint64_t* cycles = nullptr, const Device& device = kTested) {
  static const uintptr_t regions[] = {0x11000000, 0x31000000, 0x31000000};
  return run(device, {kConfigOf128, kArchitecture, kCommands, regions}, cycles);
}

void reset_npu() {
  npu = Npu();
  application = Application();
  npu.registers[at(Register::kConfig)] = kConfigOf128;
  npu.registers[at(Register::kId)] = kArchitecture | 0x20;
  take_log();
}

void test_runs() {
  reset_npu();
  uint64_t cycles = 0;
  npu.registers[at(Register::kPmuCycleCounterLow)] = 7;
  npu.registers[at(Register::kPmuCycleCounterLow) + 4] = 1;
  CHECK_ERROR(execute(&cycles), Error::Ok);
  CHECK(cycles == (1ull << 32 | 7));
  CHECK(npu.registers[at(Register::kQueueSize)] == 12);
  CHECK(npu.registers[at(Register::kQueueConfig)] == 2);
  CHECK(npu.registers[at(Register::kRegionConfig)] == 2);
  CHECK(npu.registers[at(Register::kMemory0) + 12] == 4);
  CHECK(npu.registers[at(Register::kBasePointer0)] == 0x11000000);
  CHECK(npu.registers[at(Register::kBasePointer0) + 16] == 0x31000000);
  CHECK(npu.registers[at(Register::kReset)] == kPrivileged);
  // The reset first, the start after all that it needs, and the interrupt acknowledged at the end.
  CHECK(npu.written.front() == at(Register::kReset));
  CHECK(npu.commands_at_start == 12);
  CHECK(npu.registers[at(Register::kCommand)] == (kClearInterrupt | kClockOff | kPowerOff));
  CHECK(take_log().empty());
  // No cycles are counted for a caller that doesn't ask for them.
  reset_npu();
  CHECK_ERROR(execute(), Error::Ok);
  CHECK(npu.registers.count(at(Register::kPmuControl)) == 0);
}

void test_cycles_of_u85_are_counted_elsewhere() {
  reset_npu();
  npu.registers[at(Register::kConfig)] = kConfigOfU85;
  npu.registers[0x1000 + at(Register::kPmuCycleCounterLow)] = 9;
  npu.registers[0x1000 + at(Register::kPmuCycleCounterHigh)] = 2;
  npu.registers[at(Register::kPmuCycleCounterLow)] = 1;
  uint64_t cycles = 0;
  CHECK_ERROR(run(kTested, {kConfigOfU85, kArchitecture, kCommands, {}}, &cycles), Error::Ok);
  CHECK(cycles == (2ull << 32 | 9));
  CHECK(npu.registers[0x1000 + at(Register::kPmuControl)] == 5);
  CHECK(npu.registers[0x1000 + at(Register::kPmuCountersEnable)] == 1u << 31);
  CHECK(npu.registers.count(at(Register::kPmuControl)) == 0);
}

void test_caches_know_of_what_is_computed() {
  reset_npu();
  npu.registers[at(Register::kPmuCycleCounterLow)] = 77;
  alignas(kCacheLine) static uint8_t memory[2 * kCacheLine];
  const Subgraph subgraph = {
      kConfigOf128, kArchitecture, kCommands, memory, memory, sizeof(memory)};
  CHECK_ERROR(compute(kTested, subgraph), Error::Ok);
  CHECK(
      application.events == "flush 64, barrier, run, barrier, invalidate 64, ",
      "%s",
      application.events.c_str());
  CHECK(npu.registers.count(at(Register::kPmuControl)) == 0);
  // A caller that asks for the cycles gets them.
  uint64_t cycles = 0;
  reset_npu();
  npu.registers[at(Register::kPmuCycleCounterLow)] = 77;
  ethos_u_count_cycles(&cycles);
  CHECK_ERROR(compute(kTested, subgraph), Error::Ok);
  ethos_u_count_cycles(nullptr);
  CHECK(cycles == 77);
  // Data that an NPU has written before an error is in memory, too.
  reset_npu();
  npu.status_at_end = kBusError;
  CHECK_ERROR(compute(kTested, subgraph), Error::Internal);
  CHECK(
      application.events == "flush 64, barrier, run, barrier, invalidate 64, ",
      "%s",
      application.events.c_str());
}

void test_region_2_is_the_memory_or_the_npus_own() {
  alignas(kCacheLine) static uint8_t memory[kCacheLine];
  const Subgraph subgraph = {
      kConfigOf128, kArchitecture, kCommands, memory, memory, sizeof(memory)};
  const uint32_t base = at(Register::kBasePointer0);
  reset_npu();
  CHECK_ERROR(compute(kTested, subgraph), Error::Ok);
  CHECK(npu.registers[base + 16] == npu.registers[base + 8]);
  Device device = kTested;
  device.cache = 0x31200000;
  device.cache_size = 4096;
  reset_npu();
  CHECK_ERROR(compute(device, subgraph), Error::Ok);
  CHECK(npu.registers[base + 8] == static_cast<uint32_t>(reinterpret_cast<uintptr_t>(memory)));
  CHECK(npu.registers[base + 16] == 0x31200000);
}

void check_fails(Error expected, const char* message, const Device& device = kTested) {
  CHECK_ERROR(execute(nullptr, device), expected);
  const std::string log = take_log();
  CHECK(log.find(message) != std::string::npos, "%s", log.c_str());
}

void test_another_npu() {
  reset_npu();
  npu.registers[at(Register::kConfig)] = 0x00003008;
  check_fails(
      Error::DelegateInvalidCompatibility,
      "is for an NPU with CONFIG 0x00001807 and ID 0x10060000, this one has 0x00003008 and "
      "0x10060020");
  CHECK(!npu.is_running);
  reset_npu();
  npu.registers[at(Register::kId)] = 0x20010000;
  check_fails(Error::DelegateInvalidCompatibility, "0x20010000");
  CHECK(!npu.is_running);
}

void test_resets_that_fail() {
  reset_npu();
  npu.comes_out_of_reset = false;
  check_fails(Error::AccessFailed, "does not come out of its reset");
  reset_npu();
  npu.protection = kNonSecure;
  check_fails(Error::AccessFailed, "PROT is 2, the board needs 1");
}

void test_an_npu_that_never_ends() {
  reset_npu();
  npu.delay = 1000000;
  check_fails(Error::InvalidState, "does not end, and its time is over: STATUS is 0x00000001");
  // It writes to no memory any more.
  CHECK(npu.written.back() == at(Register::kReset));
  CHECK(npu.reads < 60, "%u reads of STATUS", npu.reads);
}

void test_a_wait_that_blocks_is_bounded_by_time() {
  // A poll would go on for days.
  Device device = kTested;
  device.wait_limit = 275000000;
  device.timeout_ms = 20;
  reset_npu();
  npu.delay = UINT32_MAX;
  application.waited = {5, 1, 1, 100};
  check_fails(Error::InvalidState, "does not end, and its time is over", device);
  CHECK(application.asked == (std::vector<uint32_t>{20, 15, 14, 13}));
  CHECK(npu.written.back() == at(Register::kReset));
  // One that a signal of an earlier run ended is called again, with the rest.
  reset_npu();
  npu.delay = 2;
  application.waited = {1, 18};
  CHECK_ERROR(execute(nullptr, device), Error::Ok);
  CHECK(application.asked == (std::vector<uint32_t>{20, 19}));
  // The end counts, though the time is over with it.
  reset_npu();
  npu.delay = 1;
  application.waited = {20};
  CHECK_ERROR(execute(nullptr, device), Error::Ok);
}

void test_the_interrupt_is_acknowledged_before_the_signal() {
  reset_npu();
  handle_interrupt(kTested);
  CHECK(npu.written == std::vector<uint32_t>{at(Register::kCommand)});
  CHECK(npu.registers[at(Register::kCommand)] == kClearInterrupt);
  CHECK(application.events == "barrier, signal, ", "%s", application.events.c_str());
}

/// Registers of a core.
struct Core {
  std::map<uint32_t, uint32_t> registers;
  std::vector<std::pair<uint32_t, uint32_t>> written;
  uint32_t read(uint32_t address) {
    return registers[address];
  }
  void write(uint32_t address, uint32_t value) {
    written.emplace_back(address, value);
  }
  void barrier() {
    written.emplace_back(0, 0);
  }
};

void test_lines_of_the_data_cache() {
  using Writes = std::vector<std::pair<uint32_t, uint32_t>>;
  Core off;
  off.registers[0xE000ED14] = ~(1u << 16);
  maintain_cache(off, kDccimvac, 0x31000000, 64, kCacheLine);
  CHECK(off.written.empty());
  Core core;
  core.registers[0xE000ED14] = 1u << 16;
  maintain_cache(core, kDcimvac, 0x31000020, 64, kCacheLine);
  CHECK(
      core.written == (Writes{{0, 0}, {0xE000EF5C, 0x31000020}, {0xE000EF5C, 0x31000040}, {0, 0}}));
  // Whole lines, as far as there is a byte of the memory in them.
  core.written.clear();
  maintain_cache(core, kDccimvac, 0x3100001F, 2, kCacheLine);
  CHECK(
      core.written == (Writes{{0, 0}, {0xE000EF70, 0x31000000}, {0xE000EF70, 0x31000020}, {0, 0}}));
}

void test_the_interrupt_is_enabled_with_its_priority() {
  Core core;
  core.registers[0xE000E400 + 56] = 0x44332211;
  enable_interrupt(core, 57, 0xA0);
  CHECK(
      core.written ==
      (std::vector<std::pair<uint32_t, uint32_t>>{
          {0xE000E438, 0x4433A011}, {0xE000E284, 1u << 25}, {0, 0}, {0xE000E104, 1u << 25}}));
}

void test_errors() {
  struct {
    uint32_t status;
    const char* said;
  } const kCases[] = {
      {kBusError, "bus error before the end of the commands"},
      {kCommandError | kEndReached, "unknown command"},
      {kWatchdogFault, "watchdog"},
      {kEccFault, "memory error"},
      {kBranchFault, "branch fault"},
  };
  for (const auto& each : kCases) {
    reset_npu();
    npu.status_at_end = each.status;
    check_fails(Error::Internal, each.said);
    // The next run starts from a reset, and is fine.
    npu.status_at_end = kEndReached;
    CHECK_ERROR(execute(), Error::Ok);
  }
}

} // namespace
} // namespace torch_fusion::ethos_u

extern "C" {

void ethos_u_write(uintptr_t base, uint32_t offset, uint32_t value) {
  using namespace torch_fusion::ethos_u;
  offset += static_cast<uint32_t>(base - kTested.base);
  npu.registers[offset] = value;
  npu.written.push_back(offset);
  if (offset == at(Register::kReset)) {
    npu.is_running = false;
  } else if (offset == at(Register::kCommand) && (value & kRun) != 0) {
    npu.is_running = true;
    application.events += "run, ";
    npu.reads = 0;
    npu.commands_at_start = npu.registers[at(Register::kQueueSize)];
  } else if (offset == at(Register::kCommand) && (value & kPowerOff) != 0) {
    // The count is lost with the power.
    npu.registers[at(Register::kPmuCycleCounterLow)] = 0;
    npu.registers[0x1000 + at(Register::kPmuCycleCounterLow)] = 0;
  }
}

uint32_t ethos_u_read(uintptr_t base, uint32_t offset) {
  using namespace torch_fusion::ethos_u;
  offset += static_cast<uint32_t>(base - kTested.base);
  if (offset == at(Register::kProtection)) {
    return npu.protection;
  }
  if (offset != at(Register::kStatus)) {
    return npu.registers[offset];
  }
  if (!npu.is_running) {
    return npu.comes_out_of_reset ? 0u : static_cast<uint32_t>(kInReset);
  }
  return ++npu.reads < npu.delay ? 1u : npu.status_at_end;
}

void ethos_u_barrier() {
  torch_fusion::ethos_u::application.events += "barrier, ";
}

uint32_t ethos_u_wait(uint32_t milliseconds) {
  using torch_fusion::ethos_u::application;
  application.asked.push_back(milliseconds);
  const size_t last = application.waited.size() - 1;
  return application.waited[std::min(application.asked.size() - 1, last)];
}

void ethos_u_signal() {
  torch_fusion::ethos_u::application.events += "signal, ";
}

void ethos_u_flush(const void*, size_t size) {
  torch_fusion::ethos_u::application.events += "flush " + std::to_string(size) + ", ";
}

void ethos_u_invalidate(const void*, size_t size) {
  torch_fusion::ethos_u::application.events += "invalidate " + std::to_string(size) + ", ";
}

} // extern "C"

int main() {
  using namespace torch_fusion::ethos_u;
  test_runs();
  test_another_npu();
  test_resets_that_fail();
  test_cycles_of_u85_are_counted_elsewhere();
  test_caches_know_of_what_is_computed();
  test_region_2_is_the_memory_or_the_npus_own();
  test_an_npu_that_never_ends();
  test_a_wait_that_blocks_is_bounded_by_time();
  test_the_interrupt_is_acknowledged_before_the_signal();
  test_lines_of_the_data_cache();
  test_the_interrupt_is_enabled_with_its_priority();
  test_errors();
  return 0;
}
