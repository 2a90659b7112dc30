// Registration of backends at run time, for applications that have no generated registry.

#include "runtime/backend/static_backends.h"

namespace executorch::runtime {

namespace {

// Most backends that an image can register, static ones included.
constexpr size_t kMaxBackends = 16;

Backend table[kMaxBackends];
size_t table_size = 0;

Error add(const Backend& backend) {
  for (size_t i = 0; i < table_size; ++i) {
    ET_CHECK_OR_RETURN_ERROR(
        std::strcmp(table[i].name, backend.name) != 0,
        InvalidArgument,
        "backend %s is registered already",
        backend.name);
  }
  ET_CHECK_OR_RETURN_ERROR(
      table_size < kMaxBackends,
      Internal,
      "no room for backend %s: there are %zu",
      backend.name,
      table_size);
  table[table_size++] = backend;
  return Error::Ok;
}

} // namespace

namespace internal {

Span<const Backend> registered_backends() {
  if (table_size == 0) {
    for (const Backend& backend : kStaticBackends) {
      ET_CHECK(add(backend) == Error::Ok);
    }
  }
  return {table, table_size};
}

} // namespace internal

Error register_backend(const Backend& backend) {
  ET_CHECK_OR_RETURN_ERROR(
      backend.name != nullptr && backend.backend != nullptr,
      InvalidArgument,
      "a backend without a name, or without an object");
  // Copies the static ones first, so that the table holds all.
  internal::registered_backends();
  return add(backend);
}

} // namespace executorch::runtime
