/// Runs the program that the build embeds by ExecuTorch's public API, with the generated
/// model_program.h and firmware/board.h. firmware/application.h says what it runs on. Start with
/// examples/minimal for an application of your own.

#include "firmware/loaded_program.h"

void board_waits() {
  torch_fusion::feed_watchdog();
}

int main() {
  torch_fusion::begin_run(model_program::kName);
  if constexpr (kConsole) {
    console_unsigned(model_program::kSize);
    console_text(" bytes\n");
  }
  const bool has_host = host_open();
  prepare_arenas();
  int status = kExitError;
  const Error error = with_program(
      model_program::data(), model_program::kSize, [&](Method& method, const auto& measure) {
        status =
            torch_fusion::run_application<LoadedMethod>(method, has_host, measure, write_memory);
      });
  if (error != Error::Ok) {
    torch_fusion::fail_run("load", error);
  }
  return status;
}
