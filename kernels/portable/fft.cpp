#include "kernels/portable/fft.h"

namespace torch::executor::native {

namespace {

struct Complex {
  float re;
  float im;
};

inline Complex operator+(Complex a, Complex b) {
  return {a.re + b.re, a.im + b.im};
}

inline Complex operator-(Complex a, Complex b) {
  return {a.re - b.re, a.im - b.im};
}

inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/// -i a
inline Complex turned(Complex a) {
  return {a.im, -a.re};
}

// A stage splits `radix` parts of `points / radix` points each, which are `apart`, and writes their
// sums next to each other; `step` interleaved transforms are computed in the same way. The roots of
// the first points of the parts are 1.

void butterfly4(const Complex* x, Complex* y, uint32_t apart, uint32_t step, const Complex* w) {
  const Complex* const end = x + step;
  while (x != end) {
    const Complex x0 = x[0];
    const Complex x1 = x[apart];
    const Complex x2 = x[2 * apart];
    const Complex x3 = x[3 * apart];
    ++x;
    const Complex even = x0 + x2;
    const Complex odd = x1 + x3;
    const Complex even_difference = x0 - x2;
    const Complex odd_difference = turned(x1 - x3);
    y[0] = even + odd;
    if (w == nullptr) {
      y[step] = even_difference + odd_difference;
      y[2 * step] = even - odd;
      y[3 * step] = even_difference - odd_difference;
    } else {
      y[step] = (even_difference + odd_difference) * w[0];
      y[2 * step] = (even - odd) * w[1];
      y[3 * step] = (even_difference - odd_difference) * w[2];
    }
    ++y;
  }
}

void butterfly2(const Complex* x, Complex* y, uint32_t apart, uint32_t step, const Complex* w) {
  const Complex root = w == nullptr ? Complex{1.0f, 0.0f} : w[0];
  for (uint32_t q = 0; q < step; ++q) {
    const Complex x0 = x[q];
    const Complex x1 = x[q + apart];
    y[q] = x0 + x1;
    y[q + step] = (x0 - x1) * root;
  }
}

/// The butterfly of an odd radix, whose own roots of unity are `units`: the parts k and radix - k
/// are computed together, from sums and differences of their inputs.
void butterfly_odd(
    const Complex* x,
    Complex* y,
    uint32_t apart,
    uint32_t step,
    const Complex* w,
    uint32_t radix,
    const Complex* units) {
  for (uint32_t q = 0; q < step; ++q, ++x, ++y) {
    Complex total = *x;
    for (uint32_t j = 1; j < radix; ++j) {
      total = total + x[j * apart];
    }
    y[0] = total;
    for (uint32_t k = 1; 2 * k < radix; ++k) {
      Complex sum = *x;
      Complex difference{0.0f, 0.0f};
      uint32_t turn = 0;
      const Complex* first = x;
      const Complex* last = x + radix * apart;
      for (uint32_t j = 1; 2 * j < radix; ++j) {
        first += apart;
        last -= apart;
        turn += k;
        if (turn >= radix) {
          turn -= radix;
        }
        sum.re += (first->re + last->re) * units[turn].re;
        sum.im += (first->im + last->im) * units[turn].re;
        // Times i: the units' imaginary parts are negative sines.
        difference.re -= (first->im - last->im) * units[turn].im;
        difference.im += (first->re - last->re) * units[turn].im;
      }
      const Complex one = sum + difference;
      const Complex other = sum - difference;
      y[k * step] = w == nullptr ? one : one * w[k - 1];
      y[(radix - k) * step] = w == nullptr ? other : other * w[radix - k - 1];
    }
  }
}

/// Transforms `points` complex points in `x`, with room for as many in `y`; moves `roots` behind
/// those of the stages and returns where the result is.
Complex* complex_fft(Complex* x, Complex* y, uint32_t points, const Complex*& roots) {
  for (uint32_t step = 1; points > 1;) {
    const uint32_t radix = fft_radix(points);
    points /= radix;
    const Complex* const units = roots;
    if ((radix & 1) != 0) {
      roots += radix;
    }
    const uint32_t apart = points * step;
    const Complex* from = x;
    Complex* to = y;
    for (uint32_t p = 0; p < points; ++p, from += step, to += radix * step) {
      const Complex* const w = p == 0 ? nullptr : roots;
      if (p > 0) {
        roots += radix - 1;
      }
      if (radix == 4) {
        butterfly4(from, to, apart, step, w);
      } else if (radix == 2) {
        butterfly2(from, to, apart, step, w);
      } else {
        butterfly_odd(from, to, apart, step, w, radix, units);
      }
    }
    step *= radix;
    Complex* const result = y;
    y = x;
    x = result;
  }
  return x;
}

/// Converts the transform of `points` pairs of numbers to that of the numbers: even ones have the
/// transform E, odd ones O, and the result is E + w O.
void split(Complex* z, uint32_t points, const Complex* half_roots) {
  const Complex first = z[0];
  z[0] = {first.re + first.im, 0.0f};
  z[points] = {first.re - first.im, 0.0f};
  uint32_t k = 1;
  for (; 2 * k < points; ++k) {
    const Complex a = z[k];
    const Complex b = z[points - k];
    const Complex even = {0.5f * (a.re + b.re), 0.5f * (a.im - b.im)};
    const Complex odd = *half_roots++ * turned({a.re - b.re, a.im + b.im});
    z[k] = even + odd;
    z[points - k] = {even.re - odd.re, odd.im - even.im};
  }
  if (2 * k == points) {
    z[k].im = -z[k].im;
  }
}

} // namespace

uint32_t fft_radix(uint32_t points) {
  if ((points & 1) == 0) {
    return (points & 2) == 0 ? 4 : 2;
  }
  for (uint32_t radix = 3; radix * radix <= points; radix += 2) {
    if (points % radix == 0) {
      return radix;
    }
  }
  return points;
}

uint32_t fft_roots(uint32_t size) {
  const bool is_even = (size & 1) == 0;
  uint32_t points = is_even ? size / 2 : size;
  uint32_t count = is_even ? (points - 1) / 2 : 0;
  while (points > 1) {
    const uint32_t radix = fft_radix(points);
    points /= radix;
    count += ((radix & 1) != 0 ? radix : 0) + (points - 1) * (radix - 1);
  }
  return 2 * count;
}

uint32_t fft_work(uint32_t size) {
  const bool is_even = (size & 1) == 0;
  uint32_t stages = 0;
  for (uint32_t points = is_even ? size / 2 : size; points > 1; points /= fft_radix(points)) {
    ++stages;
  }
  if (is_even) {
    // The last result follows the others: in the other half of the stages' memory, or after
    // everything.
    return 2 * size + ((stages & 1) != 0 ? 2 : 0);
  }
  return stages == 0 ? 2 : 4 * size;
}

float* real_fft(float* work, const float* roots, uint32_t size) {
  Complex* const x = reinterpret_cast<Complex*>(work);
  const Complex* w = reinterpret_cast<const Complex*>(roots);
  if ((size & 1) == 0) {
    Complex* const z = complex_fft(x, x + size / 2, size / 2, w);
    split(z, size / 2, w);
    return reinterpret_cast<float*>(z);
  }
  for (uint32_t i = size; i-- > 0;) {
    x[i] = {work[i], 0.0f};
  }
  return reinterpret_cast<float*>(complex_fft(x, x + size, size, w));
}

} // namespace torch::executor::native
