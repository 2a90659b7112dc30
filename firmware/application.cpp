/// Runs the program that the build embeds: in an emulator on the host's inputs, else on the
/// embedded example and then on what comes from the console. It uses ExecuTorch's public API, the
/// generated model_program.h and firmware/board.h. Start here for an application of your own.

#include <type_traits>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "firmware/application.h"
#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/high_water_allocator.h"
#include "firmware/host.h"
#include "firmware/inference_server.h"
#include "firmware/tensor_text.h"
#include "model_program.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::extension::BufferDataLoader;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;
using torch_fusion::feed_watchdog;
using torch_fusion::kConsole;
using torch_fusion::write_ticks;

// Exactly as large as the build planned them, in sections of their own for the size report.
alignas(16)
    __attribute__((section(".arena.method"))) uint8_t method_arena[model_program::kMethodArenaSize];
alignas(16) __attribute__((section(".arena.planned"))) uint8_t
    planned_arena[model_program::kPlannedArenaSize];
alignas(16)
    __attribute__((section(".arena.temp"))) uint8_t temp_arena[model_program::kTempArenaSize];

/// There is nothing to measure where no kernel of the program uses temporary memory.
using TempAllocator =
    std::conditional_t<sizeof(temp_arena) == 0, MemoryAllocator, torch_fusion::HighWaterAllocator>;

HostReport report;

/// Ends with what went wrong, where a host or a person can see it.
[[noreturn]] void fail(const char* step, Error error) {
  torch_fusion::fail_run(report, step, error);
}

/// The most bytes of temporary memory in use at one time.
[[maybe_unused]] size_t high_water(const MemoryAllocator&) {
  return 0;
}
[[maybe_unused]] size_t high_water(const torch_fusion::HighWaterAllocator& allocator) {
  return allocator.high_water();
}

/// Sets an input to `data`: contiguous elements of the input's dtype and shape.
Error try_input(Method& method, size_t index, const void* data) {
  const auto& spec = model_program::kInputs[index];
  // TensorImpl has no type for constant data; set_input() only reads it.
  TensorImpl tensor(
      static_cast<ScalarType>(spec.dtype),
      spec.dim,
      const_cast<int32_t*>(spec.sizes),
      const_cast<void*>(data),
      const_cast<uint8_t*>(spec.dim_order));
  return method.set_input(EValue(Tensor(&tensor)), index);
}

/// Executes the method and sets the ticks it took.
Error try_execute(Method& method, uint32_t* ticks) {
  feed_watchdog();
  const uint32_t start = board_ticks();
  const Error error = method.execute();
  *ticks = board_ticks_since(start);
  return error;
}

/// As try_input(); an error ends the application.
void set_input(Method& method, size_t index, const void* data) {
  const Error error = try_input(method, index, data);
  if (error != Error::Ok) {
    fail("input", error);
  }
}

/// Executes the method; an error ends the application. Returns the ticks it took.
uint32_t execute(Method& method) {
  uint32_t ticks = 0;
  const Error error = try_execute(method, &ticks);
  if (error != Error::Ok) {
    fail("execute", error);
  }
  return ticks;
}

void write_outputs(const Method& method) {
  for (size_t i = 0; i < model_program::kNumOutputs; ++i) {
    console_text("output ");
    console_unsigned(i);
    console_text(": ");
    torch_fusion::write_tensor(method.get_output(i).toTensor());
  }
}

/// Compares the outputs with those that PyTorch computed from the example. Returns whether they are
/// close enough.
bool check_example(const Method& method) {
  bool all_close = true;
  for (size_t i = 0; i < model_program::kNumOutputs; ++i) {
    const Tensor& output = method.get_output(i).toTensor();
    const void* const expected = model_program::kExampleOutputs[i];
    const bool close =
        torch_fusion::all_close(output, expected, model_program::kAtol, model_program::kRtol);
    all_close = all_close && close;
    console_text("  largest difference from PyTorch: ");
    console_float(torch_fusion::max_difference(output, expected));
    console_text(close ? "\n" : " (too large)\n");
  }
  return all_close;
}

/// Runs on every sample that the host sends and gives it the outputs.
void run_host(Method& method) {
  while (const void* const inputs = host_read(model_program::kInputsSize)) {
    for (size_t i = 0; i < model_program::kNumInputs; ++i) {
      set_input(method, i, static_cast<const uint8_t*>(inputs) + model_program::kInputs[i].offset);
    }
    const uint32_t ticks = execute(method);
    if (report.samples == 0) {
      report.execute_ticks = ticks;
    }
    for (size_t i = 0; i < model_program::kNumOutputs; ++i) {
      const Tensor& output = method.get_output(i).toTensor();
      host_write(output.const_data_ptr(), output.nbytes());
    }
    ++report.samples;
  }
}

/// Runs on the embedded example. Returns whether the outputs are PyTorch's.
bool run_example(Method& method) {
  for (size_t i = 0; i < model_program::kNumInputs; ++i) {
    set_input(method, i, model_program::kExampleInputs[i]);
  }
  report.execute_ticks = execute(method);
  report.samples = 1;
  if constexpr (kConsole) {
    write_outputs(method);
    return check_example(method);
  }
  return true;
}

// Execution by steps is ExecuTorch's, but marked as experimental.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/// Executes the example once more, instruction by instruction, and writes what each took.
void profile(Method& method) {
  for (size_t i = 0; i < model_program::kNumInputs; ++i) {
    set_input(method, i, model_program::kExampleInputs[i]);
  }
  Error error = Error::Ok;
  for (size_t instruction = 0;; ++instruction) {
    feed_watchdog();
    const uint32_t start = board_ticks();
    error = method.step();
    const uint32_t ticks = board_ticks_since(start);
    if (error != Error::Ok) {
      break;
    }
    console_text("profile ");
    console_unsigned(instruction);
    write_ticks(": ", ticks);
  }
  if (error == Error::EndOfMethod) {
    error = method.reset_execution();
  }
  if (error != Error::Ok) {
    fail("profile", error);
  }
}

#pragma GCC diagnostic pop

/// Inputs that the console can give: they are kept in RAM beside the arenas.
constexpr size_t kMaxConsoleInput = 32768;

/// The inputs from the console, in order. Not on the stack: an input without memory in the plan is
/// used where it is.
template <size_t kSize>
alignas(16) uint8_t console_inputs[kSize];

/// Reads all elements of the inputs, in order, from one line of numbers. Returns false if there are
/// too few or too many.
[[maybe_unused]] bool read_inputs(uint8_t* data) {
  for (size_t i = 0; i < model_program::kNumInputs; ++i) {
    const auto& spec = model_program::kInputs[i];
    for (size_t element = 0; element < spec.numel; ++element) {
      float value;
      if (!console_read_float(&value)) {
        return false;
      }
      torch_fusion::store_element(
          static_cast<ScalarType>(spec.dtype), data + spec.offset, element, value);
    }
  }
  return console_end_line();
}

/// Executes the method on the inputs from the console.
template <size_t kSize>
Error execute_console(Method& method, uint32_t* ticks) {
  for (size_t i = 0; i < model_program::kNumInputs; ++i) {
    const Error error =
        try_input(method, i, console_inputs<kSize> + model_program::kInputs[i].offset);
    if (error != Error::Ok) {
      return error;
    }
  }
  return try_execute(method, ticks);
}

/// Answers every line of numbers from the console with the outputs, and frames of
/// tools/commands/infer.
template <size_t kSize>
[[noreturn]] void run_console(Method& method) {
  const torch_fusion::InferenceServer::Application application = {
      model_program::kName,
      model_program::data(),
      model_program::kSize,
      console_inputs<kSize>,
      kSize,
      &execute_console<kSize>};
  torch_fusion::InferenceServer server(method, application);
  for (;;) {
    console_text("> ");
    if (!console_begin_line()) {
      server.run();
    } else if (read_inputs(console_inputs<kSize>)) {
      uint32_t ticks = 0;
      const Error error = execute_console<kSize>(method, &ticks);
      if (error != Error::Ok) {
        fail("execute", error);
      }
      write_outputs(method);
      write_ticks("execute: ", ticks);
    } else {
      console_text("give all elements of the inputs on one line, separated by blanks or commas\n");
    }
  }
}

} // namespace

void board_waits() {
  feed_watchdog();
}

int main() {
  torch_fusion::begin_run();
  if constexpr (kConsole) {
    console_unsigned(model_program::kSize);
    console_text(" bytes\n");
  }
  const bool has_host = host_open();
  host_arena_paint(planned_arena, sizeof(planned_arena));

  BufferDataLoader loader(model_program::data(), model_program::kSize);
  MemoryAllocator method_allocator(sizeof(method_arena), method_arena);
  TempAllocator temp_allocator(sizeof(temp_arena), temp_arena);
  Span<uint8_t> buffers[model_program::kNumPlannedBuffers];
  for (size_t i = 0; i < model_program::kNumPlannedBuffers; ++i) {
    buffers[i] = {
        planned_arena + model_program::kPlannedBufferOffsets[i],
        model_program::kPlannedBufferSizes[i]};
  }
  HierarchicalAllocator planned_memory({buffers, model_program::kNumPlannedBuffers});
  MemoryManager memory_manager(&method_allocator, &planned_memory, &temp_allocator);

  const uint32_t start = board_ticks();
  Result<Program> program = Program::load(&loader, Program::Verification::InternalConsistency);
  if (!program.ok()) {
    fail("load", program.error());
  }
  Result<Method> method = program->load_method(model_program::kMethodName, &memory_manager);
  report.load_ticks = board_ticks_since(start);
  if (!method.ok()) {
    fail("load", method.error());
  }

  bool pass = true;
  if (has_host) {
    run_host(*method);
  } else if constexpr (model_program::kHasExample) {
    pass = run_example(*method);
  }

  if constexpr (torch_fusion::kProfiling) {
    profile(*method);
  }

  report.method_used = method_allocator.used_size();
  report.planned_used = host_arena_used(planned_arena, sizeof(planned_arena));
  report.temp_used = high_water(temp_allocator);
  const int status = torch_fusion::end_run(report, pass, [] {
    torch_fusion::write_usage("arenas: method ", report.method_used, sizeof(method_arena));
    torch_fusion::write_usage(", planned ", report.planned_used, sizeof(planned_arena));
    torch_fusion::write_usage(", temp ", report.temp_used, sizeof(temp_arena));
  });
  if constexpr (kConsole && model_program::kInputsSize <= kMaxConsoleInput) {
    if (host_interactive()) {
      run_console<model_program::kInputsSize>(*method);
    }
  }
  return status;
}
