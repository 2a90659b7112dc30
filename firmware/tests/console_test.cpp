/// console.c's numbers against the C library's, which this machine has.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "firmware/console.h"

namespace {

std::string written;
std::string input;
size_t input_position;
int failures = 0;

void expect(const char* what, const std::string& actual, const std::string& expected) {
  if (actual != expected) {
    std::printf("%s: \"%s\" is not \"%s\"\n", what, actual.c_str(), expected.c_str());
    ++failures;
  }
}

template <typename... Arguments>
std::string format(const char* text, Arguments... arguments) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), text, arguments...);
  return buffer;
}

template <typename T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <typename Write, typename Value>
std::string text_of(Write write, Value value) {
  written.clear();
  write(value);
  return written;
}

void check_float(float value) {
  if (!std::isnan(value)) {
    expect("float", text_of(console_float, value), format("%.7g", static_cast<double>(value)));
  }
}

void check_double(double value) {
  if (!std::isnan(value)) {
    expect("double", text_of(console_double, value), format("%.7g", value));
  }
}

void check_parsed(const std::string& line, float expected) {
  input = line + "\n";
  input_position = 0;
  console_begin_line();
  float value = 0;
  if (!console_read_float(&value) || !console_end_line()) {
    expect("parsed", line, "a number");
  } else if (value != expected && !(std::fabs(value - expected) <= std::fabs(expected) * 2e-6f)) {
    expect("parsed", format("%.9g", static_cast<double>(value)), line);
  }
}

void check_refused(const std::string& line) {
  input = line + "\n";
  input_position = 0;
  console_begin_line();
  float value = 0;
  if (console_read_float(&value) && console_end_line()) {
    expect("refused", line, "refused");
  }
}

} // namespace

extern "C" void board_console_write(const char* data, size_t size) {
  written.append(data, size);
}

extern "C" int board_console_read(void) {
  return input[input_position++];
}

int main() {
  for (const float value :
       {0.0f,
        -0.5f,
        0.1f,
        1e-4f,
        9.9999e-5f,
        1e7f,
        9999999.0f,
        9999999.5f,
        10000005.0f,
        123456.7f,
        4194304.5f,
        3.4028235e38f,
        1e-45f,
        1.17549435e-38f,
        INFINITY,
        -INFINITY}) {
    check_float(value);
  }
  expect("nan", text_of(console_float, NAN), "nan");
  expect("negative zero", text_of(console_float, -0.0f), "-0");
  std::srand(1);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t bits = static_cast<uint64_t>(std::rand()) << 42 ^
        static_cast<uint64_t>(std::rand()) << 21 ^ static_cast<uint64_t>(std::rand());
    check_float(from_bits<float>(bits >> 8));
    check_double(from_bits<double>(bits));
    const float usual = static_cast<float>(std::rand() % 20000000 - 10000000) /
        static_cast<float>(1 + std::rand() % 100);
    check_float(usual);
    check_parsed(format("%.9g", static_cast<double>(usual)), usual);
  }
  for (const uint64_t value : {UINT64_C(0), UINT64_C(9), UINT64_C(10), UINT64_MAX}) {
    expect("unsigned", text_of(console_unsigned, value), std::to_string(value));
  }
  for (const int64_t value : {INT64_MIN, INT64_C(-1), INT64_MAX}) {
    expect("signed", text_of(console_signed, value), std::to_string(value));
  }
  expect("hex", text_of(console_hex, 0x1234ABCDu), "0x1234abcd");
  check_parsed(" ,\t1.5e-3 , ", 1.5e-3f);
  check_parsed("+.5", 0.5f);
  check_parsed("123456789012345", 123456789012345.0f);
  check_parsed("1e99", INFINITY);
  check_parsed("1e-99", 0.0f);
  for (const char* line : {"-", "x", "1x", "1.2.3", "1e5x", ".", "e5", "1 2"}) {
    check_refused(line);
  }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
