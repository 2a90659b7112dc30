#pragma once

#include <type_traits>

namespace torch {
namespace executor {
namespace native {

/**
 * An address as that of values of type T, which it is aligned for: by what plans memory and packs
 * constants, or by a check before. Compilers that are told to warn of casts that need more
 * alignment say nothing of this one.
 */
template <class T>
inline T* aligned_cast(std::conditional_t<std::is_const_v<T>, const void*, void*> address) {
  return static_cast<T*>(address);
}

} // namespace native
} // namespace executor
} // namespace torch
