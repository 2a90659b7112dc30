#pragma once

#include <cstdint>

namespace torch::executor::native {

/**
 * Random numbers for operators that draw them. The sequence is the same after
 * every start of the image, and not PyTorch's: a program holds no seed.
 *
 * xorshift32 (G. Marsaglia, Xorshift RNGs, Journal of Statistical Software 8(14),
 * 2003): period 2^32 - 1.
 */
uint32_t random_bits();

/// Evenly distributed in [0, 1): a multiple of 2^-24.
float random_uniform();

/// Normally distributed, mean 0 and variance 1 (G. E. P. Box and M. E. Muller, A Note
/// on the Generation of Random Normal Deviates, 1958).
float random_normal();

} // namespace torch::executor::native
