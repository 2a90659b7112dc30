/// Runs a torch_cpp_library, called `network`, on the host's inputs, with an NPU whose end it waits
/// for and whose cycles it wants to know.

#include "firmware/board.h"
#include "firmware/ethos_u/driver.h"
#include "firmware/host.h"
#include "network.h"

namespace {

network_model_t model;
uint32_t waits;

} // namespace

uint32_t ethos_u_wait(uint32_t milliseconds) {
  waits += milliseconds == torch_fusion::ethos_u::kDevice.timeout_ms;
  return 1;
}

int main() {
  HostReport report = {};
  uint64_t cycles = UINT64_MAX;
  ethos_u_count_cycles(&cycles);
  host_open();
  torch_fusion_status status = network_init(&model, sizeof(model));
  while (const void* const input =
             status == TORCH_FUSION_OK ? host_read(NETWORK_INPUT_0_SIZE) : nullptr) {
    status = network_set_input(&model, 0, input, NETWORK_INPUT_0_SIZE);
    if (status == TORCH_FUSION_OK) {
      status = network_run(&model);
    }
    host_write(network_output(&model, 0), NETWORK_OUTPUT_0_SIZE);
    ++report.samples;
  }
  if (waits != report.samples || cycles == UINT64_MAX) {
    // The driver has not called or set what this application defines.
    status = TORCH_FUSION_INVALID_STATE;
  }
  report.error = static_cast<uint32_t>(status);
  report.pass = status == TORCH_FUSION_OK ? kHostReportPass : 0;
  host_close(&report);
  return status == TORCH_FUSION_OK ? kExitPass : kExitError;
}
