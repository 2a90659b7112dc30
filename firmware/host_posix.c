/// Implements firmware/host.h, firmware/board.h and firmware/stack.h on a machine with files and a
/// terminal, for running programs without an emulator. Nothing is measured there: instructions and
/// stack would be another core's.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "firmware/board.h"
#include "firmware/host.h"
#include "firmware/stack.h"

enum { kAlignment = 16 };

static int argument_count;
static char** arguments;
static const uint8_t* input;
static const uint8_t* input_end;
static FILE* output;

const BoardClock board_clock = {1, 1, 1, "ticks"};

uint32_t board_ticks(void) {
  return 0;
}

void board_console_write(const char* data, size_t size) {
  fwrite(data, 1, size, stdout);
}

int board_console_read(void) {
  return getchar();
}

void board_exit(int status) {
  exit(status);
}

size_t stack_used(void) {
  return 0;
}

size_t stack_size(void) {
  return 0;
}

/// Options of the address sanitizer, which asks for them. It doesn't look for leaks at the end: the
/// input is all that is allocated, and the search through the arenas takes longer than most
/// programs.
const char* __asan_default_options(void);
const char* __asan_default_options(void) {
  return "detect_leaks=0";
}

/// glibc calls this before main() with the command line.
__attribute__((constructor)) static void keep_arguments(int count, char** values) {
  argument_count = count;
  arguments = values;
  // Whatever ends the program, what it printed is out.
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

static const char* option(const char* key) {
  for (int i = 1; i < argument_count; ++i) {
    if (strncmp(arguments[i], key, strlen(key)) == 0) {
      return arguments[i] + strlen(key);
    }
  }
  return NULL;
}

/// Memory that stays until the end, with the alignment that host.h promises.
static void* allocate(size_t size) {
  // The first unit of each links it to the one before: for a leak checker, nothing is lost.
  static void* last;
  void** const block = aligned_alloc(kAlignment, (size / kAlignment + 2) * kAlignment);
  if (block == NULL) {
    exit(kExitHost);
  }
  *block = last;
  last = block;
  return (uint8_t*)block + kAlignment;
}

static FILE* open_file(const char* key, const char* mode) {
  const char* const path = option(key);
  FILE* const file = path != NULL ? fopen(path, mode) : NULL;
  if (path != NULL && file == NULL) {
    exit(kExitHost);
  }
  return file;
}

const void* host_file(const char* key, size_t* size) {
  FILE* const file = open_file(key, "rb");
  if (file == NULL) {
    return NULL;
  }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* const data = allocate(*size);
  if (fread(data, 1, *size, file) != *size) {
    exit(kExitHost);
  }
  fclose(file);
  return data;
}

bool host_open(void) {
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
  const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
  if (padded > (size_t)(input_end - data)) {
    exit(kExitHost);
  }
  input += padded;
  return data;
}

void host_write(const void* data, size_t size) {
  output = output != NULL ? output : open_file("outputs=", "wb");
  if (output != NULL && fwrite(data, 1, size, output) != size) {
    exit(kExitHost);
  }
}

void host_arena_paint(void* arena, size_t size) {
  (void)arena;
  (void)size;
}

size_t host_arena_used(const void* arena, size_t size) {
  (void)arena;
  return size;
}

void host_close(const HostReport* report) {
  FILE* const file = open_file("report=", "wb");
  if ((output != NULL && fclose(output) != 0) ||
      (file != NULL && (fwrite(report, sizeof(*report), 1, file) != 1 || fclose(file) != 0))) {
    exit(kExitHost);
  }
}
