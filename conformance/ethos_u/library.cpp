/// Runs a torch_cpp_library, called `network`, on the host's inputs.

#include "firmware/board.h"
#include "firmware/host.h"
#include "network.h"

namespace {

network_model_t model;

} // namespace

int main() {
  HostReport report = {};
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
  report.error = static_cast<uint32_t>(status);
  report.pass = status == TORCH_FUSION_OK ? kHostReportPass : 0;
  host_close(&report);
  return status == TORCH_FUSION_OK ? kExitPass : kExitError;
}
