#include "firmware/host.h"

bool host_open(void) {
  return false;
}

const void* host_file(const char* key, size_t* size) {
  (void)key;
  (void)size;
  return NULL;
}

bool host_interactive(void) {
  return true;
}

const void* host_read(size_t size) {
  (void)size;
  return NULL;
}

void host_write(const void* data, size_t size) {
  (void)data;
  (void)size;
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
  (void)report;
}
