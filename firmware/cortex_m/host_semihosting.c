#include <string.h>

#include "firmware/board.h"
#include "firmware/cortex_m/semihosting.h"
#include "firmware/host.h"

/// RAM of the emulated machine that is no part of the image's budget: the linker script takes it
/// from the board's emulator.
extern uint8_t __host_start[], __host_end[];

/// Next input byte, end of the inputs.
static const uint8_t* input;
static const uint8_t* input_end;
/// The outputs so far, which grow towards __host_end.
static uint8_t* outputs;
static uint8_t* outputs_end;

/// The command line as text, its words' ends replaced by '\0', is first there.
static char* command_line(void) {
  return (char*)__host_start;
}

enum { kPaint = 0xA5, kCommandLineSize = 256, kAlignment = 16 };

static uint8_t* align_up(const uint8_t* address) {
  return (uint8_t*)(((uintptr_t)address + kAlignment - 1) & ~(uintptr_t)(kAlignment - 1));
}

/// Returns the value of the command line's word `key=value`, or NULL.
static const char* option(const char* key) {
  for (const char* word = command_line(); *word != '\0';) {
    const char* left = key;
    while (*left != '\0' && *word == *left) {
      ++word;
      ++left;
    }
    if (*left == '\0') {
      return word;
    }
    while (*word++ != '\0') {
    }
  }
  return NULL;
}

static int32_t open_file(const char* path, uint32_t mode) {
  const struct {
    const char* path;
    uint32_t mode;
    size_t path_size;
  } block = {path, mode, strlen(path)};
  return semihosting_call(kSysOpen, &block);
}

static void write_file(const char* key, const void* data, size_t size) {
  const char* const path = option(key);
  if (path == NULL) {
    return;
  }
  const int32_t file = open_file(path, kOpenWrite);
  const struct {
    int32_t file;
    const void* data;
    size_t size;
  } block = {file, data, size};
  // Returns the bytes that were not written.
  if (file < 0 || semihosting_call(kSysWrite, &block) != 0) {
    board_exit(kExitHost);
  }
  // The emulator ends right after; only a close makes sure that the file is complete.
  semihosting_call(kSysClose, &file);
}

const void* host_file(const char* key, size_t* size) {
  const char* const path = option(key);
  if (path == NULL) {
    return NULL;
  }
  const int32_t file = open_file(path, kOpenRead);
  const int32_t length = semihosting_call(kSysFileLength, &file);
  uint8_t* const data = outputs;
  const struct {
    int32_t file;
    void* data;
    int32_t size;
  } block = {file, data, length};
  // Returns the bytes that were not read.
  if (file < 0 || length < 0 || length > __host_end - data ||
      semihosting_call(kSysRead, &block) != 0) {
    board_exit(kExitHost);
  }
  outputs = outputs_end = align_up(data + length);
  *size = (size_t)length;
  return data;
}

bool host_open(void) {
  const struct {
    char* text;
    size_t size;
  } line = {command_line(), kCommandLineSize};
  if (semihosting_call(kSysGetCommandLine, &line) != 0) {
    *command_line() = '\0';
  }
  char* end = command_line();
  for (; *end != '\0'; ++end) {
    if (*end == ' ') {
      *end = '\0';
    }
  }
  // An empty word ends the list.
  end[1] = '\0';
  outputs = outputs_end = __host_start + kCommandLineSize;
  size_t size;
  input = host_file("inputs=", &size);
  if (input == NULL) {
    return false;
  }
  input_end = input + size;
  return true;
}

bool host_interactive(void) {
  return option("console=") != NULL;
}

const void* host_read(size_t size) {
  const uint8_t* const data = input;
  if (data == input_end) {
    return NULL;
  }
  input = align_up(data + size);
  if (input > input_end) {
    board_exit(kExitHost);
  }
  return data;
}

void host_write(const void* data, size_t size) {
  if (size > (size_t)(__host_end - outputs_end)) {
    board_exit(kExitHost);
  }
  memcpy(outputs_end, data, size);
  outputs_end += size;
}

void host_arena_paint(void* arena, size_t size) {
  // This avoids memset(), for which small images have no other use.
  for (uint8_t* to = (uint8_t*)arena; size > 0; --size) {
    *to++ = kPaint;
    __asm volatile("" ::: "memory");
  }
}

size_t host_arena_used(const void* arena, size_t size) {
  const uint8_t* const bytes = (const uint8_t*)arena;
  while (size > 0 && bytes[size - 1] == kPaint) {
    --size;
  }
  return size;
}

void host_close(const HostReport* report) {
  write_file("outputs=", outputs, (size_t)(outputs_end - outputs));
  write_file("report=", report, sizeof(*report));
}
