/// The functions of firmware/libc at every small size and alignment, against loops of bytes.

#include <cstdint>
#include <cstring>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"

namespace {

constexpr size_t kSize = 96;
constexpr size_t kOffsets = 5;
constexpr size_t kMaxLength = 70;

uint8_t from[kSize];
uint8_t to[kSize];
uint8_t expected[kSize];
int failures = 0;

void expect(bool holds, const char* function, size_t length) {
  if (!holds) {
    console_text(function);
    console_text(" is wrong for ");
    console_unsigned(length);
    console_text(" bytes\n");
    ++failures;
  }
}

void reset() {
  for (size_t i = 0; i < kSize; ++i) {
    from[i] = static_cast<uint8_t>(i * 37 + 11);
    to[i] = expected[i] = static_cast<uint8_t>(i);
  }
}

bool equal(const uint8_t* a, const uint8_t* b) {
  for (size_t i = 0; i < kSize; ++i) {
    if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

void check_memory(size_t length, size_t to_offset, size_t from_offset) {
  reset();
  for (size_t i = 0; i < length; ++i) {
    expected[to_offset + i] = from[from_offset + i];
  }
  void* const result = std::memcpy(to + to_offset, from + from_offset, length);
  expect(result == to + to_offset && equal(to, expected), "memcpy", length);

  reset();
  for (size_t i = 0; i < length; ++i) {
    expected[to_offset + i] = static_cast<uint8_t>(from_offset + i);
  }
  std::memmove(to + to_offset, to + from_offset, length);
  expect(equal(to, expected), "memmove", length);

  reset();
  for (size_t i = 0; i < length; ++i) {
    expected[to_offset + i] = 0xA9;
  }
  std::memset(to + to_offset, 0x5A9, length);
  expect(equal(to, expected), "memset", length);

  reset();
  std::memcpy(to + to_offset, from + from_offset, length);
  expect(std::memcmp(to + to_offset, from + from_offset, length) == 0, "memcmp", length);
  if (length > 0) {
    from[from_offset + length - 1] ^= 0x80;
    const int order = to[to_offset + length - 1] < 0x80 ? -1 : 1;
    expect(std::memcmp(to + to_offset, from + from_offset, length) * order > 0, "memcmp", length);
  }
}

// The compiler would compute with constants.
const char* volatile texts[] = {"", "a", "ab", "abc", "abd", "b", "\xff"};

void check_strings() {
  const size_t lengths[] = {0, 1, 2, 3, 3, 1, 1};
  for (size_t i = 0; i < 7; ++i) {
    expect(std::strlen(texts[i]) == lengths[i], "strlen", lengths[i]);
    for (size_t j = 0; j < 7; ++j) {
      // The texts are in order.
      const int order = std::strcmp(texts[i], texts[j]);
      expect(i == j ? order == 0 : (i < j) == (order < 0), "strcmp", lengths[i]);
    }
  }
  expect(std::strncmp(texts[3], texts[4], 2) == 0, "strncmp", 2);
  expect(std::strncmp(texts[3], texts[4], 3) < 0, "strncmp", 3);
  expect(std::strncmp(texts[1], texts[1], 9) == 0, "strncmp", 9);
  expect(std::strncmp(texts[1], texts[5], 0) == 0, "strncmp", 0);
}

} // namespace

int main() {
  host_open();
  for (size_t length = 0; length < kMaxLength; ++length) {
    for (size_t to_offset = 0; to_offset < kOffsets; ++to_offset) {
      for (size_t from_offset = 0; from_offset < kOffsets; ++from_offset) {
        check_memory(length, to_offset, from_offset);
      }
    }
  }
  check_strings();
  HostReport report = {};
  report.pass = failures == 0 ? kHostReportPass : 0;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(failures == 0 ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return failures == 0 ? kExitPass : kExitMismatch;
}
