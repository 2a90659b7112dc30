#pragma once

#include <type_traits>

namespace torch::executor::native {

/**
 * Casts an address to a pointer to T, for which it is aligned: either the memory planner or the
 * packing of constants ensures that, or a check. Unlike other casts, it causes no warning about
 * stricter alignment.
 */
template <class T>
inline T* aligned_cast(std::conditional_t<std::is_const_v<T>, const void*, void*> address) {
  return static_cast<T*>(address);
}

} // namespace torch::executor::native
