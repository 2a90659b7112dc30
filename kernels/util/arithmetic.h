#pragma once

#include <cstdint>
#include <type_traits>

namespace torch::executor::native {

/**
 * Integer arithmetic that wraps: done in the unsigned type, promoted no further
 * than 32 bits. Floating-point types stay themselves.
 */
template <class T, bool kIsIntegral = std::is_integral_v<T>>
struct Arithmetic {
  using type = T;
};
template <class T>
struct Arithmetic<T, true> {
  using type = std::conditional_t<sizeof(T) <= sizeof(uint32_t), uint32_t, uint64_t>;
};
template <class T>
using ArithmeticType = typename Arithmetic<T>::type;

} // namespace torch::executor::native
