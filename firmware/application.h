#pragma once

#include <stdint.h>

#include <cstring>
#include <type_traits>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/error_text.h"
#include "firmware/host.h"
#include "firmware/inference_server.h"
#include "firmware/program.h"
#include "firmware/stack.h"
#include "firmware/tensor_text.h"
#include "model_program.h"

/// Runs an image's model with any engine: in an emulator on the host's inputs, else on the embedded
/// example and then on the console's inputs. application.cpp and compiled_application.cpp make a
/// model ready, and give it to run_application() with an engine; compiled_models_application.cpp
/// does so with one of several models at a time. An engine is a class of static functions:
///
///     using Model = ...;
///     /// Models that the image has; several need the last two functions, too.
///     static constexpr size_t kModelCount;
///     const Program& program(const Model& model);
///     /// Sets an input to contiguous elements of the dtype and shape of kInputs[index].
///     Error set_input(Model& model, size_t index, const void* data);
///     Error execute(Model& model);
///     /// Returns an output of the last execution, valid until the next.
///     Output output(const Model& model, size_t index);
///     /// Executes on the inputs; calls `write(operator, ticks)` for each operator, in order.
///     Error profile(Model& model, void (*write)(size_t, uint32_t));
///     static constexpr size_t kLongestName;
///     const char* name(size_t index);
///     /// Makes the model of that index ready in place of the present one.
///     Error choose(Model& model, size_t index);

namespace torch_fusion {

using executorch::runtime::Error;

/// True if this image prints; code that only printing needs is left out otherwise.
inline constexpr bool kConsole = ET_LOG_ENABLED;

/// An output: its elements, their bytes, and as many sizes as kOutputs[index].dim.
struct Output {
  const void* data;
  size_t nbytes;
  const int32_t* sizes;
};

/// The image tells its host this at the end.
inline HostReport report;

/// Gives what comes next, such as an execution, as long as the image's watchdog waits.
inline void feed_watchdog() {
  if constexpr (kWatchdogMilliseconds > 0) {
    board_watchdog_feed();
  }
}

/// Starts the watchdog and says what runs, and after a comma how.
inline void begin_run(const char* name) {
  if constexpr (kWatchdogMilliseconds > 0) {
    board_watchdog(kWatchdogMilliseconds);
  }
  if constexpr (kConsole) {
    console_text("Torch Fusion: ");
    console_text(name);
    console_text(", ");
  }
}

/// Ends with what went wrong, where a host or a person can see it.
[[noreturn]] inline void fail_run(const char* step, Error error) {
  if constexpr (kConsole) {
    write_error(step, error);
  }
  report.error = static_cast<uint32_t>(error);
  host_close(&report);
  board_exit(kExitError);
}

/// Writes what something took, in the board's unit and in microseconds.
inline void write_ticks(const char* name, uint32_t ticks) {
  console_text(name);
  console_unsigned(static_cast<uint64_t>(ticks) * board_clock.numerator / board_clock.denominator);
  console_text(" ");
  console_text(board_clock.unit);
  console_text(", ");
  console_unsigned(static_cast<uint64_t>(ticks) * 1000000 / board_clock.ticks_per_second);
  console_text(" us\n");
}

inline void write_usage(const char* name, size_t used, size_t size) {
  console_text(name);
  console_unsigned(used);
  console_text(" of ");
  console_unsigned(size);
}

/// Inputs that the console can give: they are kept in RAM beside the arenas.
inline constexpr size_t kMaxConsoleInput = 32768;

/// The inputs from the console, in order. They are not on the stack: an input without memory in the
/// plan is used where it is.
template <size_t kSize>
alignas(16) inline uint8_t console_inputs[kSize];

/// A run of an image with an engine.
template <class Engine>
class Run final {
 public:
  using Model = typename Engine::Model;

  /// Runs on every sample that the host sends and gives it the outputs.
  static void run_host(Model& model) {
    const Program& program = Engine::program(model);
    while (const void* const inputs = host_read(program.inputs_size)) {
      for (size_t i = 0; i < program.num_inputs; ++i) {
        set_input(model, i, static_cast<const uint8_t*>(inputs) + program.inputs[i].offset);
      }
      const uint32_t ticks = execute(model);
      if (report.samples == 0) {
        report.execute_ticks = ticks;
      }
      for (size_t i = 0; i < program.num_outputs; ++i) {
        const Output output = Engine::output(model, i);
        host_write(output.data, output.nbytes);
      }
      ++report.samples;
    }
  }

  /// Runs on the embedded example. Returns whether the outputs are PyTorch's.
  static bool run_example(Model& model) {
    set_example(model);
    report.execute_ticks = execute(model);
    report.samples = 1;
    if constexpr (kConsole) {
      write_outputs(model);
      return check_example(model);
    }
    return true;
  }

  /// Executes the example once more, and writes what each operator took.
  static void profile(Model& model) {
    set_example(model);
    check("profile", Engine::profile(model, [](size_t number, uint32_t ticks) {
            feed_watchdog();
            console_text("profile ");
            console_unsigned(number);
            write_ticks(": ", ticks);
          }));
  }

  /// Answers every line of numbers from the console with the outputs, and frames of
  /// tools/commands/infer. If there are several models, a line with a name chooses one.
  template <size_t kSize>
  [[noreturn]] static void run_console(Model& model) {
    ConsoleApplication<kSize> application(model);
    InferenceServer server(application);
    for (;;) {
      write_prompt(model);
      if (!console_begin_line()) {
        server.run();
      } else if (choose_by_line(model)) {
        application.describe();
      } else if (read_inputs(Engine::program(model), console_inputs<kSize>)) {
        uint32_t ticks = 0;
        check("execute", application.execute(&ticks));
        write_outputs(model);
        write_ticks("execute: ", ticks);
      } else {
        console_text(
            "give all elements of the inputs on one line, separated by blanks or commas\n");
      }
    }
  }

  /// The index of the model of that name; kModelCount, and a message, if there is none.
  static size_t find(const char* name, size_t size) {
    for (size_t i = 0; i < Engine::kModelCount; ++i) {
      const char* const known = Engine::name(i);
      if (std::strlen(known) == size && std::memcmp(known, name, size) == 0) {
        return i;
      }
    }
    if constexpr (kConsole) {
      console_text("there is no model ");
      console_write(name, size);
      console_text("; there are");
      for (size_t i = 0; i < Engine::kModelCount; ++i) {
        console_text(i == 0 ? " " : ", ");
        console_text(Engine::name(i));
      }
      console_text("\n");
    }
    return Engine::kModelCount;
  }

  /// Makes a model of several ready.
  static void choose(Model& model, size_t index) {
    if constexpr (kConsole) {
      console_text("model ");
      console_text(Engine::name(index));
      console_text("\n");
    }
    const uint32_t start = board_ticks();
    const Error error = Engine::choose(model, index);
    report.load_ticks = board_ticks_since(start);
    check("init", error);
  }

 private:
  /// The server calls this, on the inputs from the console.
  template <size_t kSize>
  class ConsoleApplication final : public InferenceServer::Application {
   public:
    explicit ConsoleApplication(Model& model)
        : Application(
              Engine::program(model).name,
              Engine::program(model).pte_size,
              Engine::program(model).pte_crc32,
              {console_inputs<kSize>, Engine::program(model).inputs_size},
              Engine::program(model).num_inputs,
              Engine::program(model).num_outputs),
          model_(model) {}

    /// Tells the server of the model that was chosen since.
    void describe() {
      const Program& program = Engine::program(model_);
      this->name = program.name;
      this->program_size = program.pte_size;
      this->program_crc32 = program.pte_crc32;
      this->inputs_size = program.inputs_size;
      this->num_inputs = static_cast<uint8_t>(program.num_inputs);
      this->num_outputs = static_cast<uint8_t>(program.num_outputs);
    }

    InferenceServer::Border input(size_t index) const override {
      return border(Engine::program(model_).inputs[index]);
    }
    InferenceServer::Border output(size_t index) const override {
      return border(Engine::program(model_).outputs[index]);
    }
    Error execute(uint32_t* ticks) override {
      const Program& program = Engine::program(model_);
      for (size_t i = 0; i < program.num_inputs; ++i) {
        const uint8_t* const data = console_inputs<kSize> + program.inputs[i].offset;
        const Error error = Engine::set_input(model_, i, data);
        if (error != Error::Ok) {
          return error;
        }
      }
      return try_execute(model_, ticks);
    }
    executorch::runtime::Span<const uint8_t> result(size_t index) const override {
      const Output output = Engine::output(model_, index);
      return {static_cast<const uint8_t*>(output.data), output.nbytes};
    }

   private:
    static InferenceServer::Border border(const TensorSpec& spec) {
      return {spec.dtype, spec.dim, spec.sizes, spec.nbytes, spec.offset};
    }

    Model& model_;
  };

  static void write_prompt(const Model& model) {
    if constexpr (Engine::kModelCount > 1) {
      console_text(Engine::program(model).name);
    }
    console_text("> ");
  }

  /// Returns, for several models, whether the line was a name. If there is a model of that name, it
  /// is ready then, and was run on its example.
  static bool choose_by_line(Model& model) {
    if constexpr (Engine::kModelCount > 1) {
      char name[Engine::kLongestName + 1];
      const size_t size = console_read_name(name, sizeof(name));
      if (size > 0) {
        const size_t index = console_end_line() ? find(name, size) : Engine::kModelCount;
        if (index < Engine::kModelCount) {
          choose(model, index);
          if constexpr (model_program::kHasExample) {
            run_example(model);
          }
        }
        return true;
      }
    }
    return false;
  }

  /// An error ends the application.
  static void check(const char* step, Error error) {
    if (error != Error::Ok) {
      fail_run(step, error);
    }
  }

  static void set_input(Model& model, size_t index, const void* data) {
    check("input", Engine::set_input(model, index, data));
  }

  static void set_example(Model& model) {
    const Program& program = Engine::program(model);
    for (size_t i = 0; i < program.num_inputs; ++i) {
      set_input(model, i, program.example_inputs[i]);
    }
  }

  /// Executes the model and sets the ticks it took.
  static Error try_execute(Model& model, uint32_t* ticks) {
    feed_watchdog();
    const uint32_t start = board_ticks();
    const Error error = Engine::execute(model);
    *ticks = board_ticks_since(start);
    return error;
  }

  /// Returns the ticks it took.
  static uint32_t execute(Model& model) {
    uint32_t ticks = 0;
    check("execute", try_execute(model, &ticks));
    return ticks;
  }

  static executorch::aten::TensorImpl output(const Model& model, size_t index) {
    const TensorSpec& spec = Engine::program(model).outputs[index];
    const Output output = Engine::output(model, index);
    // TensorImpl has no type for constant data; nothing writes.
    return executorch::aten::TensorImpl(
        static_cast<executorch::aten::ScalarType>(spec.dtype),
        spec.dim,
        const_cast<int32_t*>(output.sizes),
        const_cast<void*>(output.data),
        const_cast<uint8_t*>(spec.dim_order));
  }

  static void write_outputs(const Model& model) {
    for (size_t i = 0; i < Engine::program(model).num_outputs; ++i) {
      console_text("output ");
      console_unsigned(i);
      console_text(": ");
      executorch::aten::TensorImpl impl = output(model, i);
      write_tensor(executorch::aten::Tensor(&impl));
    }
  }

  /// Compares the outputs with those that PyTorch computed from the example. Returns whether they
  /// are close enough.
  static bool check_example(const Model& model) {
    const Program& program = Engine::program(model);
    if (program.example_outputs == nullptr) {
      return true;
    }
    bool all_are_close = true;
    for (size_t i = 0; i < program.num_outputs; ++i) {
      executorch::aten::TensorImpl impl = output(model, i);
      const executorch::aten::Tensor tensor(&impl);
      const void* const expected = program.example_outputs[i];
      const bool is_close = all_close(tensor, expected, program.atol, program.rtol);
      all_are_close = all_are_close && is_close;
      console_text("  largest difference from PyTorch: ");
      console_float(max_difference(tensor, expected));
      console_text(is_close ? "\n" : " (too large)\n");
    }
    return all_are_close;
  }

  /// Reads all elements of the inputs, in order, from one line of numbers. Returns false if there
  /// are too few or too many.
  static bool read_inputs(const Program& program, uint8_t* data) {
    for (size_t i = 0; i < program.num_inputs; ++i) {
      const TensorSpec& spec = program.inputs[i];
      for (size_t element = 0; element < spec.numel; ++element) {
        float value;
        if (!console_read_float(&value)) {
          return false;
        }
        store_element(
            static_cast<executorch::aten::ScalarType>(spec.dtype),
            data + spec.offset,
            element,
            value);
      }
    }
    return console_end_line();
  }
};

/**
 * Runs a model that is ready, measures memory and stack, and hands what was measured to the host
 * and to a person.
 *
 * @param[in] measure Sets what the report has of the model's memory.
 * @param[in] write_memory Writes the same for a person, without the end of the line.
 * @param[in] pass Whether outputs of other models, if there were any, are PyTorch's.
 *
 * @returns The image's exit status, if no console is there to go on with.
 */
template <class Engine, class Measure, class WriteMemory>
int run_application(
    typename Engine::Model& model,
    bool has_host,
    const Measure& measure,
    const WriteMemory& write_memory,
    bool pass = true) {
  using Run = torch_fusion::Run<Engine>;
  if (has_host) {
    Run::run_host(model);
  } else if constexpr (model_program::kHasExample) {
    pass &= Run::run_example(model);
  }
  if constexpr (kProfiling) {
    Run::profile(model);
  }
  measure();
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  if constexpr (kConsole) {
    write_ticks("load: ", report.load_ticks);
    write_ticks("execute: ", report.execute_ticks);
    write_memory();
    write_usage("\nstack: ", report.stack_used, report.stack_size);
    console_text(pass ? "\nPASS\n" : "\nFAIL: the outputs differ from PyTorch's\n");
  }
  if (pass) {
    report.pass = kHostReportPass;
  }
  host_close(&report);
  if constexpr (kConsole && model_program::kInputsSize <= kMaxConsoleInput) {
    if (host_interactive()) {
      Run::template run_console<model_program::kInputsSize>(model);
    }
  }
  return pass ? kExitPass : kExitMismatch;
}

} // namespace torch_fusion
