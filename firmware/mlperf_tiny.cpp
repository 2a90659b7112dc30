/// Answers the runner of MLPerf Tiny: the firmware side of its serial protocol, for a compiled
/// model with one input and one output whose program is called as the benchmark: ad01, ic01, kws01,
/// vww01. A command ends with '%', its answer with the line "m-ready". docs/firmware.md has the
/// commands.

#include <stdint.h>
#include <string.h>

#include "firmware/board.h"
#include "firmware/console.h"
#include "model_program.h"

static_assert(
    model_program::kNumInputs == 1 && model_program::kNumOutputs == 1,
    "MLPerf Tiny's models have one input and one output");

/// Sets the pin whose falling edges an energy monitor takes as timestamps. An image that defines it
/// is in energy mode, any other one in performance mode, where the console has the timestamps.
extern "C" __attribute__((weak)) void mlperf_tiny_pin(bool high);

namespace {

constexpr auto& kInput = model_program::kInputs[0];
constexpr auto& kOutput = model_program::kOutputs[0];
constexpr int8_t kInt8 = 1, kFloat = 6;
static_assert(
    (kInput.dtype == kInt8 || kInput.dtype == kFloat) &&
        (kOutput.dtype == kInt8 || kOutput.dtype == kFloat),
    "MLPerf Tiny's models have inputs and outputs of int8 or float32");

/// Images are sent as unsigned bytes, features of speech as signed ones, and those of machines as
/// floating-point numbers.
constexpr bool kIsImage = model_program::kName[0] == 'i' || model_program::kName[0] == 'v';
constexpr bool kIsAnomaly = model_program::kName[0] == 'a';
constexpr size_t kSentSize = kInput.numel * (kIsAnomaly ? sizeof(float) : 1);

__attribute__((section(".arena.planned"))) compiled_model::Model instance;

/// The input as it was sent, and how many bytes of it are here.
alignas(4) unsigned char sent[kSentSize];
size_t sent_size = 0;

/// The model's input.
alignas(4) unsigned char input[kInput.nbytes];

uint32_t last_ticks = 0;
uint64_t all_ticks = 0;

/// Counts on beyond the 32 bits of board_ticks(): of the time between two calls what is left after
/// whole rounds of these, which matters to no inference.
void count_ticks() {
  const uint32_t now = board_ticks();
  all_ticks += now - last_ticks;
  last_ticks = now;
}

void timestamp() {
  if (mlperf_tiny_pin != nullptr) {
    // The edge counts if the pin stays low for a microsecond.
    mlperf_tiny_pin(false);
    const uint32_t start = board_ticks();
    while (board_ticks() - start < board_clock.ticks_per_second / 500000 + 1) {
    }
    mlperf_tiny_pin(true);
    return;
  }
  count_ticks();
  const uint64_t second = board_clock.ticks_per_second;
  console_text("m-lap-us-");
  console_unsigned(all_ticks / second * 1000000 + all_ticks % second * 1000000 / second);
  console_text("\n");
}

/// Writes a number with three digits after the point.
void write_number(float value) {
  if (value < 0) {
    console_text("-");
    value = -value;
  }
  // One that is not a number, or does not fit, is written as the largest one.
  const auto thousandths = value < 4e6f ? static_cast<uint32_t>(value * 1000 + 0.5f) : UINT32_MAX;
  console_unsigned(thousandths / 1000);
  char digits[4] = ".";
  uint32_t rest = thousandths % 1000;
  for (size_t i = 3; i > 0; --i, rest /= 10) {
    digits[i] = static_cast<char>('0' + rest % 10);
  }
  console_write(digits, sizeof(digits));
}

/// The number of an element of the output.
float output_number(size_t index) {
  const void* const data = compiled_model::output(&instance, 0);
  if constexpr (kOutput.dtype == kFloat) {
    return static_cast<const float*>(data)[index];
  } else {
    constexpr float kScale = model_program::kOutputScales[0];
    return torch_fusion_dequantize(
        static_cast<const int8_t*>(data)[index],
        kScale == 0 ? 1 : kScale,
        model_program::kOutputZeroPoints[0]);
  }
}

/// Makes the model's input of what was sent.
void convert() {
  for (size_t i = 0; i < kInput.numel; ++i) {
    float value = 0;
    int32_t element = 0;
    if constexpr (kIsAnomaly) {
      memcpy(&value, sent + i * sizeof(value), sizeof(value));
      if constexpr (kInput.dtype == kInt8) {
        const float inverse = 1 / model_program::kInputScales[0];
        element = torch_fusion_quantize(
            value, inverse, model_program::kInputZeroPoints[0], INT8_MIN, INT8_MAX);
      }
    } else if constexpr (kIsImage) {
      value = sent[i];
      element = sent[i] - 128;
    } else {
      element = static_cast<int8_t>(sent[i]);
      value = static_cast<float>(element);
    }
    if constexpr (kInput.dtype == kFloat) {
      memcpy(input + i * sizeof(value), &value, sizeof(value));
    } else {
      input[i] = static_cast<unsigned char>(element);
    }
  }
}

/// Writes the output, or of an autoencoder the mean square of its error.
void write_results() {
  console_text("m-results-[");
  if constexpr (kIsAnomaly && kInput.numel == kOutput.numel) {
    float sum = 0;
    for (size_t i = 0; i < kOutput.numel; ++i) {
      float expected;
      memcpy(&expected, sent + i * sizeof(expected), sizeof(expected));
      const float difference = output_number(i) - expected;
      sum += difference * difference;
    }
    write_number(sum / static_cast<float>(kOutput.numel));
  } else {
    for (size_t i = 0; i < kOutput.numel; ++i) {
      if (i > 0) {
        console_text(",");
      }
      write_number(output_number(i));
    }
  }
  console_text("]\n");
}

void error(const char* what) {
  console_text("e-[");
  console_text(what);
  console_text("]\n");
}

bool run(uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    // An inference may write over its input.
    if (compiled_model::set_input(&instance, 0, input, sizeof(input)) != TORCH_FUSION_OK ||
        compiled_model::run(&instance) != TORCH_FUSION_OK) {
      error("the inference failed");
      return false;
    }
    count_ticks();
  }
  return true;
}

/// Reads the next word of a command as a number; false if there is none.
bool read_number(const char*& text, uint32_t& value) {
  while (*text == ' ') {
    ++text;
  }
  if (*text < '0' || *text > '9') {
    return false;
  }
  for (value = 0; *text >= '0' && *text <= '9'; ++text) {
    value = value * 10 + static_cast<uint32_t>(*text - '0');
  }
  return true;
}

void infer(const char* arguments) {
  uint32_t times = 1, warm_up = 10;
  if (read_number(arguments, times)) {
    read_number(arguments, warm_up);
  }
  if (times == 0) {
    return error("infer needs one iteration at least");
  }
  if (sent_size != kSentSize) {
    return error("the input is not loaded");
  }
  convert();
  console_text("m-warmup-start-");
  console_unsigned(warm_up);
  console_text("\n");
  if (!run(warm_up)) {
    return;
  }
  console_text("m-warmup-done\nm-infer-start-");
  console_unsigned(times);
  console_text("\n");
  timestamp();
  if (!run(times)) {
    return;
  }
  timestamp();
  console_text("m-infer-done\n");
  write_results();
}

int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  const char lower = static_cast<char>(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Loads the input: "load SIZE", then its bytes in any number of commands.
void load(const char* arguments) {
  if (strncmp(arguments, "load ", 5) == 0) {
    uint32_t size = 0;
    arguments += 5;
    if (!read_number(arguments, size) || size != kSentSize) {
      error("the model's input has another size");
      return;
    }
    sent_size = 0;
    console_text("m-[Expecting ");
    console_unsigned(size);
    console_text(" bytes]\n");
    return;
  }
  for (const char* digit = arguments; *digit != 0; digit += 2) {
    const int high = hexadecimal(digit[0]), low = high < 0 ? -1 : hexadecimal(digit[1]);
    if (low < 0 || sent_size == kSentSize) {
      error(low < 0 ? "db has two hexadecimal digits for each byte" : "the input is loaded");
      return;
    }
    sent[sent_size++] = static_cast<unsigned char>(high << 4 | low);
  }
  if (sent_size == kSentSize) {
    console_text("m-load-done\n");
  }
}

void answer(const char* command) {
  if (strcmp(command, "name") == 0) {
    console_text("m-name-dut-[Torch Fusion]\n");
  } else if (strcmp(command, "profile") == 0) {
    console_text("m-profile-[Torch Fusion]\nm-model-[");
    console_text(model_program::kName);
    console_text("]\n");
  } else if (strcmp(command, "timestamp") == 0) {
    timestamp();
  } else if (strcmp(command, "results") == 0) {
    write_results();
  } else if (strcmp(command, "help") == 0) {
    console_text(
        "name, profile, timestamp, db load SIZE, db BYTES, infer TIMES [WARM-UP], results\n");
  } else if (strncmp(command, "db ", 3) == 0) {
    load(command + 3);
  } else if (strcmp(command, "infer") == 0 || strncmp(command, "infer ", 6) == 0) {
    infer(command + 5);
  } else {
    error("unknown command; try help");
  }
}

} // namespace

int main() {
  if (mlperf_tiny_pin != nullptr) {
    mlperf_tiny_pin(true);
  }
  console_text("m-timestamp-mode-");
  console_text(mlperf_tiny_pin != nullptr ? "energy\n" : "performance\n");
  if (compiled_model::init(&instance, sizeof(instance)) != TORCH_FUSION_OK) {
    error("the model has no memory");
  }
  console_text("m-init-done\nm-ready\n");
  // Longer than any command: the runner sends at most 64 digits with a "db".
  char command[160];
  size_t size = 0;
  for (;;) {
    const int byte = board_console_read();
    if (byte == '%') {
      if (size < sizeof(command)) {
        command[size] = 0;
        answer(command);
      } else {
        error("the command is too long");
      }
      size = 0;
      console_text("m-ready\n");
    } else if (byte != '\r' && byte != '\n' && size < sizeof(command)) {
      command[size++] = static_cast<char>(byte);
    }
  }
}
