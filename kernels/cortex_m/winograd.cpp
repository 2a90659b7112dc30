#include "kernels/cortex_m/winograd.h"

#include <cstring>

#include "kernels/cortex_m/all_registers.h"
#include "kernels/cortex_m/packed_scale.h"
#include "kernels/util/aligned.h"

namespace torch::executor::native::cortex_m {

namespace {

/// The rows and columns of a tile's window, and of transformed tiles and kernels.
constexpr int32_t kSide = 4;
constexpr int32_t kPlaces = kSide * kSide;
/// The number of output channels whose weights are transformed at a time.
constexpr int32_t kChannels = 2;
/// The sums of an element, for all lanes and channels.
constexpr int32_t kSums = kLanes * kChannels;

/*
 * Pairs are two 16-bit numbers in a word, of two input channels. The scratch memory contains
 * - tiles, in groups of four: [pair of channels][element][lane],
 * - weights: [pair of channels][element][output channel],
 * - sums: [element][output channel][lane].
 */

#ifdef __ARM_FEATURE_DSP

using Pair = int16x2_t;

ET_INLINE Pair add(Pair a, Pair b) {
  return add_pairs(a, b);
}

ET_INLINE Pair subtract(Pair a, Pair b) {
  return subtract_pairs(a, b);
}

/// Selects bytes 0 and 2 of a word, or 1 and 3.
template <bool kOdd>
ET_INLINE Pair bytes(const void* from) {
  const uint32_t word = load_word(from);
  return kOdd ? odd_bytes(word) : even_bytes(word);
}

/// Returns the word `kCount` strides after `from`, which no code writes meanwhile: otherwise the
/// compiler would compute all such addresses in advance, and keep them on the stack.
template <int kCount>
ET_INLINE uint32_t word_at(const int8_t* from, int32_t step) {
  static_assert(kCount == 1 || kCount == 2);
  uint32_t word;
  if constexpr (kCount == 1) {
    __asm__("ldr %0, [%1, %2]" : "=r"(word) : "r"(from), "r"(step));
  } else {
    __asm__("ldr %0, [%1, %2, lsl #1]" : "=r"(word) : "r"(from), "r"(step));
  }
  return word;
}

template <bool kOdd, int kCount>
ET_INLINE Pair bytes_at(const int8_t* from, int32_t step) {
  const uint32_t word = word_at<kCount>(from, step);
  return kOdd ? odd_bytes(word) : even_bytes(word);
}

#else

struct Pair {
  int16_t low;
  int16_t high;
};

Pair add(Pair a, Pair b) {
  return {static_cast<int16_t>(a.low + b.low), static_cast<int16_t>(a.high + b.high)};
}

Pair subtract(Pair a, Pair b) {
  return {static_cast<int16_t>(a.low - b.low), static_cast<int16_t>(a.high - b.high)};
}

template <bool kOdd>
Pair bytes(const void* from) {
  const auto* const first = static_cast<const int8_t*>(from) + kOdd;
  return {first[0], first[2]};
}

template <bool kOdd, int kCount>
Pair bytes_at(const int8_t* from, int32_t step) {
  return bytes<kOdd>(from + kCount * step);
}

#endif

static_assert(sizeof(Pair) == 4);

/// A transformed column of a tile's window; pixels are `row` bytes apart.
struct Column {
  Pair places[kSide];

  template <bool kOdd>
  static ET_INLINE Column transform(const int8_t* from, int32_t row) {
    const Pair d1 = bytes_at<kOdd, 1>(from, row);
    const Pair d2 = bytes_at<kOdd, 2>(from, row);
    const Pair d0 = bytes<kOdd>(from);
    const Pair d3 = bytes_at<kOdd, 2>(from + row, row);
    return {subtract(d0, d2), add(d1, d2), subtract(d2, d1), subtract(d1, d3)};
  }
};

/// A pair of channels of a tile's window, transformed, into a lane.
template <bool kOdd>
ET_INLINE void transform_window(const int8_t* from, int32_t row, int32_t column, Pair* to) {
  constexpr int32_t kRow = kSide * kLanes;
  const Column third = Column::transform<kOdd>(from + 2 * column, row);
  const Column first = Column::transform<kOdd>(from, row);
#pragma GCC unroll 4
  for (int32_t i = 0; i < kSide; ++i) {
    to[i * kRow] = subtract(first.places[i], third.places[i]);
  }
  const Column second = Column::transform<kOdd>(from + column, row);
#pragma GCC unroll 4
  for (int32_t i = 0; i < kSide; ++i) {
    to[i * kRow + kLanes] = add(second.places[i], third.places[i]);
    to[i * kRow + 2 * kLanes] = subtract(third.places[i], second.places[i]);
  }
  const Column fourth = Column::transform<kOdd>(from + 3 * column, row);
#pragma GCC unroll 4
  for (int32_t i = 0; i < kSide; ++i) {
    to[i * kRow + 3 * kLanes] = subtract(second.places[i], fourth.places[i]);
  }
}

/// Transforms all channels of a tile's window into a lane.
ET_NOINLINE void transform_windows(const int8_t* from, int32_t row, int32_t channels, Pair* to) {
  for (const int8_t* const end = from + channels; from != end; from += 4) {
    transform_window<false>(from, row, channels, to);
    transform_window<true>(from, row, channels, to + kPlaces * kLanes);
    to += 2 * kPlaces * kLanes;
  }
}

/// Three weights of a row or column, which has its four transformed ones.
struct Three {
  Pair g0;
  Pair g1;
  Pair g2;

  /// The elements of a kernel in a row of it, `step` bytes apart.
  template <bool kSecond>
  static ET_INLINE Three load(const int8_t* from, int32_t step) {
    return {
        bytes<kSecond>(from), bytes_at<kSecond, 1>(from, step), bytes_at<kSecond, 2>(from, step)};
  }

  ET_INLINE void transform(Pair* to) const {
    const Pair outer = add(g0, g2);
    to[0] = add(g0, g0);
    to[kChannels] = add(outer, g1);
    to[2 * kChannels] = subtract(outer, g1);
    to[3 * kChannels] = add(g2, g2);
  }

  friend ET_INLINE Three operator+(const Three& a, const Three& b) {
    return {add(a.g0, b.g0), add(a.g1, b.g1), add(a.g2, b.g2)};
  }

  friend ET_INLINE Three operator-(const Three& a, const Three& b) {
    return {subtract(a.g0, b.g0), subtract(a.g1, b.g1), subtract(a.g2, b.g2)};
  }
};

/// Transforms a pair of weights of the first or second of two output channels, for all elements of
/// the kernel, which are `step` bytes apart.
template <bool kSecond>
ET_INLINE void transform_kernel(const int8_t* from, int32_t step, Pair* to) {
  constexpr int32_t kRow = kSide * kChannels;
  const int32_t row = 3 * step;
  const Three above = Three::load<kSecond>(from, step);
  (above + above).transform(to);
  const Three below = Three::load<kSecond>(from + 2 * row, step);
  (below + below).transform(to + 3 * kRow);
  const Three outer = above + below;
  const Three middle = Three::load<kSecond>(from + row, step);
  (outer + middle).transform(to + kRow);
  (outer - middle).transform(to + 2 * kRow);
}

/// The weights of two output channels, transformed.
ET_NOINLINE void transform_kernels(const int8_t* from, int32_t channels, Pair* to) {
  const int32_t step = kChannels * channels;
  for (const int8_t* const end = from + step; from != end; from += 4) {
    transform_kernel<false>(from, step, to);
    transform_kernel<true>(from, step, to + 1);
    to += kPlaces * kChannels;
  }
}

/// Computes the sums of four tiles and two output channels for all elements. Sums that exceed 32
/// bits lose their upper bits, but the results computed from them fit.
ET_NOINLINE void multiply(const Pair* tiles, const Pair* weights, int32_t channels, int32_t* sums) {
#ifdef __ARM_FEATURE_DSP
  const int32_t* const sums_end = sums + kPlaces * kSums;
  const Pair* end = weights + channels / 2 * kPlaces * kChannels;
  // The distance from the end of an element's pairs to the first one of the next element.
  const int32_t back = channels / 2 * kPlaces * kLanes * 4 - 4 * kLanes;
  int32_t s0, s1, s2, s3, s4, s5, s6, s7;
  uint32_t a, b, v, w;
  // 0.69 instructions per product, and a constant per element.
#define SMUAD(sum, x, w) "smuad %[" sum "], %[" x "], %[" w "]\n"
#define SMLAD(sum, x, w) "smlad %[" sum "], %[" x "], %[" w "], %[" sum "]\n"
#define PAIRS(PRODUCT)                                                                      \
  "ldrd %[v], %[w], [%[weights]], #128\n"                                                   \
  "ldrd %[a], %[b], [%[x]], #8\n" PRODUCT("s0", "a", "v") PRODUCT("s4", "a", "w")           \
      PRODUCT("s1", "b", "v")                                                               \
          PRODUCT("s5", "b", "w") "ldrd %[a], %[b], [%[x]], #248\n" PRODUCT("s2", "a", "v") \
              PRODUCT("s6", "a", "w") PRODUCT("s3", "b", "v") PRODUCT("s7", "b", "w")
  MEMORY_WORDS(a, memory_word(end), memory_word(sums), memory_word(sums_end), memory_word(back));
  __asm__ volatile(PUSH_MEMORY("3, 2, 1, 0", "%[a]", "%[b]") "1:\n" PAIRS(SMUAD) PAIRS(SMLAD)
                   "ldr %[a], " IN_MEMORY(end, 0) "\n"
                   "cmp %[a], %[weights]\n"
                   "beq 3f\n"
                   "2:\n" PAIRS(SMLAD) PAIRS(SMLAD)
                   "ldr %[a], " IN_MEMORY(end, 0) "\n"
                   "cmp %[a], %[weights]\n"
                   "bne 2b\n"
                   "3:\n"
                   "ldr %[v], " IN_MEMORY(sums, 1) "\n"
                   "ldr %[b], " IN_MEMORY(back, 3) "\n"
                   "strd %[s0], %[s1], [%[v]], #8\n"
                   "strd %[s2], %[s3], [%[v]], #8\n"
                   "strd %[s4], %[s5], [%[v]], #8\n"
                   "strd %[s6], %[s7], [%[v]], #8\n"
                   "str %[v], " IN_MEMORY(sums, 1) "\n"
                   "add %[a], #8\n"
                   "str %[a], " IN_MEMORY(end, 0) "\n"
                   "ldr %[w], " IN_MEMORY(sums_end, 2) "\n"
                   "sub %[x], %[b]\n"
                   "sub %[weights], %[weights], %[b], lsr #1\n"
                   "cmp %[v], %[w]\n"
                   "bne 1b\n" POP_MEMORY(4)
                   : [s0] "=&r"(s0),
                     [s1] "=&r"(s1),
                     [s2] "=&r"(s2),
                     [s3] "=&r"(s3),
                     [s4] "=&r"(s4),
                     [s5] "=&r"(s5),
                     [s6] "=&r"(s6),
                     [s7] "=&r"(s7),
                     [x] "+r"(tiles),
                     [weights] "+r"(weights),
                     [a] MEMORY_ADDRESS(a),
                     [b] "=&r"(b),
                     [v] "=&r"(v),
                     [w] "=&r"(w) WITH_GCC(, [end] "+m"(end),
                     [sums] "+m"(sums))
                   : WITH_GCC([back] "m"(back), [sums_end] "m"(sums_end))
                   : "memory", "cc");
#undef PAIRS
#undef SMLAD
#undef SMUAD
#else
  for (int32_t place = 0; place < kPlaces; ++place) {
    for (int32_t i = 0; i < kSums; ++i) {
      const Pair* x = tiles + place * kLanes + i % kLanes;
      const Pair* w = weights + place * kChannels + i / kLanes;
      int32_t sum = 0;
      for (int32_t pair = channels / 2; pair > 0; --pair) {
        sum = wrapping_add(wrapping_add(sum, x->low * w->low), x->high * w->high);
        x += kPlaces * kLanes;
        w += kPlaces * kChannels;
      }
      *sums++ = sum;
    }
  }
#endif
}

/// A tile's outputs in memory, and how many of its rows and columns there are.
struct Outputs {
  int8_t* first;
  int32_t column_step;
  int32_t row_step;
  int32_t columns;
  int32_t rows;
};

/// Stores a tile's outputs of a channel.
ET_NOINLINE void
store_tile(const uint32_t* sums, int32_t bias, Scale scale, const Outputs& outputs) {
  constexpr int32_t kRow = kSide * kSums;
  // The outputs, two by two, each times four.
  uint32_t y00 = 0;
  uint32_t y01 = 0;
  uint32_t y10 = 0;
  uint32_t y11 = 0;
#pragma GCC unroll 4
  for (int32_t j = 0; j < kSide; ++j) {
    const uint32_t both = sums[kRow];
    const uint32_t other = sums[2 * kRow];
    const uint32_t above = sums[0] + both + other;
    const uint32_t below = both - other - sums[3 * kRow];
    if (j < 3) {
      y00 += above;
      y10 += below;
    }
    if (j == 1) {
      y01 = above;
      y11 = below;
    }
    if (j > 1) {
      y01 -= above;
      y11 -= below;
    }
    sums += kSums;
  }
  const auto store = [&](uint32_t sum, int8_t* out) {
    *out = scale.apply(wrapping_add(static_cast<int32_t>(sum) >> 2, bias));
  };
  int8_t* const out = outputs.first;
  int8_t* const below = out + outputs.row_step;
  store(y00, out);
  if (outputs.columns > 1) {
    store(y01, out + outputs.column_step);
  }
  if (outputs.rows > 1) {
    store(y10, below);
    if (outputs.columns > 1) {
      store(y11, below + outputs.column_step);
    }
  }
}

/// A tile of a batch of images: the position of its first output.
struct Tile {
  int32_t image;
  int32_t y;
  int32_t x;

  /// Goes on to the next one.
  ET_INLINE void next(const PackedImages& images) {
    x += 2;
    if (x >= images.width.out) {
      x = 0;
      y += 2;
      if (y >= images.height.out) {
        y = 0;
        ++image;
      }
    }
  }
};

/// Transforms the window of a tile into a lane. `patch` has room for a window.
void transform_tile(
    const PackedLayer& layer,
    const PackedImages& images,
    const Tile& tile,
    const int8_t* in,
    int8_t* patch,
    Pair* to) {
  const Window& height = images.height;
  const Window& width = images.width;
  const int32_t channels = layer.in_channels;
  const int32_t top = tile.y - height.padding;
  const int32_t left = tile.x - width.padding;
  int32_t row = width.in * channels;
  const int8_t* from = in + (tile.image * height.in + top) * row + left * channels;
  if (top < 0 || left < 0 || top + kSide > height.in || left + kSide > width.in) {
    int8_t* place = patch;
    for (int32_t i = 0; i < kSide; ++i) {
      for (int32_t j = 0; j < kSide; ++j) {
        const bool is_inside =
            top + i >= 0 && top + i < height.in && left + j >= 0 && left + j < width.in;
        if (is_inside) {
          // In a corrupted program scratch memory may overlap the input.
          std::memmove(place, from + i * row + j * channels, static_cast<size_t>(channels));
        } else {
          std::memset(place, layer.input_zero_point, static_cast<size_t>(channels));
        }
        place += channels;
      }
    }
    from = patch;
    row = kSide * channels;
  }
  transform_windows(from, row, channels, to);
}

} // namespace

int64_t winograd_scratch(const PackedParts& parts, const Window& /*width*/) {
  const PackedLayer& layer = *parts.layer;
  const int64_t pairs = layer.in_channels / 2;
  const int64_t transformed = pairs * kPlaces * (layer.group_size + kChannels);
  return 4 * (transformed + kPlaces * kSums);
}

ET_NOINLINE void packed_winograd(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const int32_t channels = layer.in_channels;
  const int32_t out_channels = layer.channels;
  const int32_t out_row = images.width.out * out_channels;
  // The size of a tile, or of a channel's weights.
  const int32_t words = channels / 2 * kPlaces;
  auto* const tiles = aligned_cast<Pair>(scratch);
  Pair* const kernels = tiles + layer.group_size * words;
  auto* const sums = aligned_cast<int32_t>(kernels + kChannels * words);
  const int32_t addend = addend_of(layer);
  Tile first = {};
  int32_t left = images.batch * ((images.height.out + 1) / 2) * ((images.width.out + 1) / 2);
  while (left > 0) {
    const int32_t count = left < layer.group_size ? left : layer.group_size;
    Tile tile = first;
    for (int32_t i = 0; i < count; ++i) {
      Pair* const to = tiles + (i & -kLanes) * words + i % kLanes;
      auto* const patch = reinterpret_cast<int8_t*>(kernels);
      transform_tile(layer, images, tile, in, patch, to);
      tile.next(images);
    }
    const int8_t* weights = parts.weights;
    for (int32_t c = 0; c < out_channels; c += kChannels) {
      transform_kernels(weights, channels, kernels);
      weights += kChannels * parts.padded_inner;
      Tile stored = first;
      for (int32_t i = 0; i < count; i += kLanes) {
        multiply(tiles + i * words, kernels, channels, sums);
        const int32_t lanes = count - i < kLanes ? count - i : kLanes;
        for (int32_t lane = 0; lane < lanes; ++lane) {
          const int32_t row = stored.image * images.height.out + stored.y;
          Outputs outputs = {
              out + row * out_row + stored.x * out_channels + c,
              out_channels,
              out_row,
              images.width.out - stored.x,
              images.height.out - stored.y};
          const auto* from = reinterpret_cast<const uint32_t*>(sums) + lane;
          for (int32_t k = c; k < c + kChannels && k < out_channels; ++k) {
            const Scale scale = {parts.multipliers[k], parts.shifts[k], addend};
            store_tile(from, parts.bias[k], scale, outputs);
            from += kLanes;
            ++outputs.first;
          }
          stored.next(images);
        }
      }
    }
    first = tile;
    left -= count;
  }
  clamp_outputs(layer, out, images.batch * images.height.out * out_row);
}

void packed_winograd(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  packed_winograd(image_parts(packed, LayerKind::Winograd), images, in, scratch, out);
}

} // namespace torch::executor::native::cortex_m
