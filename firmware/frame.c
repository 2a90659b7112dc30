#include "firmware/frame.h"

#include "firmware/board.h"

enum { kCrcSize = 4, kLongestBlock = 0xFF };

uint32_t frame_crc32(uint32_t crc, const void* data, size_t size) {
  const uint8_t* const bytes = (const uint8_t*)data;
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    // The generator polynomial with its bits reversed: the lowest bit is sent first.
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (0xEDB88320u & (0 - (crc & 1)));
    }
  }
  return ~crc;
}

/// Decodes COBS in place. Returns the bytes decoded; 0 if a block would end behind the frame.
static size_t decode(uint8_t* data, size_t size) {
  size_t read = 0;
  size_t written = 0;
  while (read < size) {
    const uint8_t code = data[read++];
    const size_t block = code - 1u;
    if (block > size - read) {
      return 0;
    }
    for (size_t i = 0; i < block; ++i) {
      data[written++] = data[read++];
    }
    // The zero at the end of the data is not part of it.
    if (code != kLongestBlock && read < size) {
      data[written++] = 0;
    }
  }
  return written;
}

size_t frame_receive(uint8_t* buffer, size_t capacity) {
  for (;;) {
    size_t size = 0;
    for (int byte; (byte = board_console_read()) != 0; ++size) {
      if (size < capacity) {
        buffer[size] = (uint8_t)byte;
      }
    }
    if (size > capacity) {
      continue;
    }
    const size_t decoded = decode(buffer, size);
    if (decoded > kCrcSize) {
      const size_t payload = decoded - kCrcSize;
      const uint8_t* const sent = buffer + payload;
      const uint32_t crc =
          sent[0] | (uint32_t)sent[1] << 8 | (uint32_t)sent[2] << 16 | (uint32_t)sent[3] << 24;
      if (frame_crc32(0, buffer, payload) == crc) {
        return payload;
      }
    }
  }
}

void frame_send(uint8_t* payload, size_t size) {
  static const char kDelimiter = 0;
  const uint32_t crc = frame_crc32(0, payload, size);
  for (size_t i = 0; i < kCrcSize; ++i) {
    payload[size++] = (uint8_t)(crc >> 8 * i);
  }
  // One zero before it, too: whatever else was sent ends there.
  board_console_write(&kDelimiter, 1);
  size_t start = 0;
  int full;
  do {
    size_t end = start;
    while (end < size && payload[end] != 0 && end - start < kLongestBlock - 1u) {
      ++end;
    }
    full = end - start == kLongestBlock - 1u;
    const char code = (char)(end - start + 1);
    board_console_write(&code, 1);
    board_console_write((const char*)payload + start, end - start);
    // A zero follows any block that is not full; the one at the end of the payload is not part of
    // it.
    start = full ? end : end + 1;
  } while (start < size || (start == size && !full));
  board_console_write(&kDelimiter, 1);
}
