/// firmware/frame.c: known values, every size of payload, and streams of rubbish under the
/// sanitizers. tools/commands/infer tests it against another implementation.

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "firmware/frame.h"

namespace {

std::string written;
std::string input;
size_t input_position;
int failures = 0;

/// The target of the jump at the end of the input, as frame_receive() waits for good.
std::jmp_buf end_of_input;
std::vector<uint8_t> buffer;
std::vector<std::string> payloads;

void expect(const char* what, bool holds) {
  if (!holds) {
    std::printf("%s\n", what);
    ++failures;
  }
}

std::string framed(const std::string& payload) {
  buffer.assign(payload.begin(), payload.end());
  buffer.resize(payload.size() + 4);
  written.clear();
  frame_send(buffer.data(), payload.size());
  return written;
}

/// The payloads that are received from a stream.
std::vector<std::string> received(const std::string& stream, size_t capacity) {
  input = stream;
  input_position = 0;
  // It is exactly as large, so that the sanitizer sees writes after it.
  std::vector<uint8_t>(capacity).swap(buffer);
  payloads.clear();
  if (setjmp(end_of_input) == 0) {
    for (;;) {
      const size_t size = frame_receive(buffer.data(), buffer.size());
      payloads.emplace_back(reinterpret_cast<const char*>(buffer.data()), size);
    }
  }
  return payloads;
}

} // namespace

extern "C" void board_console_write(const char* data, size_t size) {
  written.append(data, size);
}

extern "C" int board_console_read(void) {
  if (input_position == input.size()) {
    std::longjmp(end_of_input, 1);
  }
  return static_cast<uint8_t>(input[input_position++]);
}

int main() {
  // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
  expect("CRC-32 of 123456789", frame_crc32(0, "123456789", 9) == 0xCBF43926u);
  expect("CRC-32 in two parts", frame_crc32(frame_crc32(0, "1234", 4), "56789", 5) == 0xCBF43926u);

  std::mt19937 random(1);
  for (size_t size = 1; size < 1100; ++size) {
    std::string payload(size, '\0');
    for (char& c : payload) {
      // Few zeros in some, many in others, so that blocks of all lengths occur.
      c = random() % (size % 3 == 0 ? 2 : 400) == 0 ? '\0' : static_cast<char>(random());
    }
    const std::string frame = framed(payload);
    expect("a frame between zeros", frame.front() == '\0' && frame.back() == '\0');
    expect(
        "no zero within a frame",
        frame.substr(1, frame.size() - 2).find('\0') == std::string::npos);
    const size_t needed = size + 4 + (size + 4) / 254 + 1;
    const auto back = received(frame, needed);
    expect("what was sent is received", back == std::vector<std::string>{payload});
    expect("one that is too long is dropped", received(frame, size / 2).empty());
  }

  const std::string good = framed("good");
  for (int i = 0; i < 20000; ++i) {
    std::string rubbish(random() % 80, '\0');
    for (char& c : rubbish) {
      c = static_cast<char>(random() % 7 == 0 ? 0 : random());
    }
    const auto found = received(rubbish + good, 40);
    expect("a frame after rubbish", found == std::vector<std::string>{"good"});
  }

  // Frames with bytes changed, lost and doubled: what arrives is what was sent, or nothing.
  for (int i = 0; i < 20000; ++i) {
    const std::string payload = "payload " + std::to_string(random());
    std::string frame = framed(payload) + framed(payload);
    for (uint32_t change = random() % 4; change < 4; ++change) {
      const size_t at = random() % frame.size();
      switch (random() % 4) {
        case 0:
          frame[at] = static_cast<char>(frame[at] ^ 1 << random() % 8);
          break;
        case 1:
          frame.erase(at, 1 + random() % 3);
          break;
        case 2:
          frame.insert(at, frame, at, 1 + random() % 3);
          break;
        default:
          frame[at] = static_cast<char>(random());
      }
    }
    // This one is also shorter than the frame.
    const auto found = received(frame + good, 4 + random() % 40);
    for (const std::string& one : found) {
      expect("nothing but what was sent is received", one == payload || one == "good");
    }
  }
  return failures == 0 ? 0 : 1;
}
