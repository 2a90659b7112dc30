// The driver on registers that the test answers for.

#include "firmware/ethos_u/driver.h"

#include <map>
#include <string>
#include <vector>

#include "firmware/ethos_u/registers.h"
#include "runtime/tests/check.h"
#include "runtime/tests/log.h"

namespace torch_fusion {
namespace ethos_u {
namespace {

using executorch::runtime::Error;
using executorch::runtime::Span;
using testing::take_log;

constexpr uint32_t kConfigOf128 = 0x00001807;
constexpr uint32_t kArchitecture = 0x10060000;
constexpr Device kTested = {0x48102000, 56, 0x2, 2, {1, 2, 3, 4}, kPrivileged, 50};

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

constexpr uint32_t at(Register name) {
  return static_cast<uint32_t>(name);
}

Error execute(uint64_t* cycles = nullptr) {
  alignas(16) static const uint32_t commands[] = {1, 2, 3};
  static const uintptr_t regions[] = {0x11000000, 0x31000000, 0x31000000};
  return run(kTested, {kConfigOf128, kArchitecture, commands, regions}, cycles);
}

void reset_npu() {
  npu = Npu();
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
}

void check_fails(Error expected, const char* message) {
  CHECK_ERROR(execute(), expected);
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
} // namespace ethos_u
} // namespace torch_fusion

extern "C" {

void ethos_u_write(uintptr_t base, uint32_t offset, uint32_t value) {
  using namespace torch_fusion::ethos_u;
  CHECK(base == kTested.base);
  npu.registers[offset] = value;
  npu.written.push_back(offset);
  if (offset == at(Register::kReset)) {
    npu.is_running = false;
  } else if (offset == at(Register::kCommand) && (value & kRun) != 0) {
    npu.is_running = true;
    npu.reads = 0;
    npu.commands_at_start = npu.registers[at(Register::kQueueSize)];
  }
}

uint32_t ethos_u_read(uintptr_t base, uint32_t offset) {
  using namespace torch_fusion::ethos_u;
  CHECK(base == kTested.base);
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

void ethos_u_barrier() {}

} // extern "C"

int main() {
  using namespace torch_fusion::ethos_u;
  test_runs();
  test_another_npu();
  test_resets_that_fail();
  test_an_npu_that_never_ends();
  test_errors();
  return 0;
}
