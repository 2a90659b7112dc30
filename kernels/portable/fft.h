#pragma once

#include <cstddef>
#include <cstdint>

namespace torch::executor::native {

/**
 * Radix of the next stage of a transform of `points` complex points, more than one: 4 while it
 * divides them, then 2, then the smallest odd prime.
 */
uint32_t fft_radix(uint32_t points);

/**
 * Number of floats in the roots of unity that real_fft() takes for `size` numbers, in this order,
 * (cos, sin) of each angle:
 *
 * - for each stage, of a transform of `points` points, first to last: if its radix is odd,
 *   -2 pi k / radix for k = 0, ... radix - 1; then, for p = 1, ... points / radix - 1 and
 *   k = 1, ... radix - 1, -2 pi p k / points;
 * - if `size` is even, with half their length: -2 pi k / size for k = 1, ... below size / 4.
 */
uint32_t fft_roots(uint32_t size);

/// Number of floats in the memory that real_fft() works in; its input is the first part.
uint32_t fft_work(uint32_t size);

/**
 * Discrete Fourier transform of `size` real numbers, at least one of any number, in
 * O(size log size) if it has small prime factors; a prime factor p takes p / 2 steps per number.
 *
 * The stages order themselves (T. G. Stockham, in W. T. Cochran et al., What is the fast Fourier
 * transform?, 1967; C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992),
 * decimate in frequency and take the radices of fft_radix(). An even number of real numbers is
 * transformed as half as many complex ones (J. W. Cooley, P. A. W. Lewis and P. D. Welch, The fast
 * Fourier transform algorithm, 1970); an odd one as it is.
 *
 * @param[in,out] work The numbers, in its first elements; fft_work(size) floats.
 * @param[in] roots fft_roots(size) floats.
 *
 * @returns size / 2 + 1 complex numbers, real and imaginary part each, in `work`.
 */
float* real_fft(float* work, const float* roots, uint32_t size);

} // namespace torch::executor::native
