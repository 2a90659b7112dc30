/// Defines symbols of compiled C++ for which the C library would bring a heap, signals and streams.

#include <cstddef>
#include <cstdlib>

#include <executorch/runtime/platform/platform.h>

// Classes with a virtual destructor refer to operator delete, though nothing is ever allocated.
void operator delete(void*) noexcept {}
void operator delete(void*, std::size_t) noexcept {}

extern "C" {

/// The language and its library give up here, for example for a std::get() of the wrong
/// alternative.
void abort() {
  et_pal_abort();
}

/// The vtable entry of a pure virtual function.
void __cxa_pure_virtual() {
  et_pal_abort();
}

/// Objects that live as long as the image, such as backends, are never destroyed.
[[gnu::visibility("hidden")]] void* __dso_handle = nullptr;
int __aeabi_atexit(void*, void (*)(void*), void*) {
  return 0;
}

} // extern "C"
