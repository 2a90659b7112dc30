#include "runtime/backend/static_backends.h"

namespace executorch::runtime {

namespace {

Span<const Backend> backends() {
  return internal::registered_backends != nullptr ? internal::registered_backends()
                                                  : internal::kStaticBackends;
}

} // namespace

BackendInterface::~BackendInterface() = default;

BackendInterface* get_backend_class(const char* name) {
  for (const Backend& backend : backends()) {
    if (std::strcmp(backend.name, name) == 0) {
      return backend.backend;
    }
  }
  return nullptr;
}

size_t get_num_registered_backends() {
  return backends().size();
}

Result<const char*> get_backend_name(size_t index) {
  const Span<const Backend> all = backends();
  ET_CHECK_OR_RETURN_ERROR(
      index < all.size(), InvalidArgument, "backend %zu of %zu", index, all.size());
  return all[index].name;
}

Error set_option(const char* backend_name, const Span<BackendOption> backend_options) {
  BackendInterface* const backend = get_backend_class(backend_name);
  ET_CHECK_OR_RETURN_ERROR(backend != nullptr, NotFound, "there is no backend %s", backend_name);
  BackendOptionContext context;
  return backend->set_option(context, backend_options);
}

Error get_option(const char* backend_name, Span<BackendOption> backend_options) {
  BackendInterface* const backend = get_backend_class(backend_name);
  ET_CHECK_OR_RETURN_ERROR(backend != nullptr, NotFound, "there is no backend %s", backend_name);
  BackendOptionContext context;
  return backend->get_option(context, backend_options);
}

} // namespace executorch::runtime
