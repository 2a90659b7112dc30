#include "kernels/cortex_m/packed_layers.h"

#include <algorithm>
#include <cstring>

#include "kernels/cortex_m/elementwise.h"
#include "kernels/cortex_m/packed_scale.h"
#include "kernels/util/aligned.h"

#if defined(__ARM_FEATURE_MVE)
#include "kernels/cortex_m/packed_mve.h"
#elif defined(__ARM_FEATURE_DSP)
#include "kernels/cortex_m/packed_dsp.h"
#else
#include "kernels/cortex_m/packed_scalar.h"
#endif

namespace torch::executor::native::cortex_m {

namespace {

/// Bytes behind a window that may be copied with it.
constexpr int32_t kCopiedMore = 8;

bool is_pointwise(const PackedLayer& layer) {
  return layer.kernel[0] == 1 && layer.kernel[1] == 1 && layer.stride[0] == 1 &&
      layer.stride[1] == 1 && layer.padding[0] == 0 && layer.padding[1] == 0;
}

/// Returns whether the elements under a window are copied byte by byte.
bool is_gathered(const PackedLayer& layer) {
  return !is_pointwise(layer) &&
      (layer.arrangement == Arrangement::Mve || layer.in_channels % 4 != 0);
}

int32_t round_up_4(int32_t value) {
  return (value + 3) & ~3;
}

ET_INLINE void clamp_images(const PackedLayer& layer, const PackedImages& images, int8_t* out) {
  clamp_outputs(layer, out, images.batch * images.height.out * images.width.out * layer.channels);
}

/// Copies a few bytes: without a call, as rows of an image with few channels are short. In a
/// corrupted program both may overlap.
ET_INLINE int8_t* copy_bytes(const int8_t* from, int32_t count, int8_t* to) {
#ifdef __ARM_FEATURE_MVE
  int8_t* const end = to + count;
  __asm__ volatile(
      "wlstp.8 lr, %[count], 2f\n"
      "1:\n"
      "vldrb.8 q0, [%[from]], #16; vstrb.8 q0, [%[to]], #16; letp lr, 1b\n"
      "2:\n"
      : [from] "+r"(from), [to] "+r"(to)
      : [count] "r"(count)
      : "memory", "lr", "q0");
  return end;
#else
#if !defined(__thumb__) || defined(__ARM_FEATURE_UNALIGNED)
  for (; count >= 4; count -= 4) {
    const uint32_t word = load_word(from);
    std::memcpy(to, &word, sizeof(word));
    from += 4;
    to += 4;
  }
#endif
  for (; count > 0; --count) {
    *to++ = *from++;
  }
  return to;
#endif
}

#if !defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_MVE)

ET_INLINE int8_t* fill_bytes(int32_t value, int32_t count, int8_t* to) {
#ifdef __ARM_FEATURE_MVE
  int8_t* const end = to + count;
  __asm__ volatile(
      "wlstp.8 lr, %[count], 2f\n"
      "1:\n"
      "vstrb.8 %q[values], [%[to]], #16; letp lr, 1b\n"
      "2:\n"
      : [to] "+r"(to)
      : [count] "r"(count), [values] "w"(vdupq_n_s8(static_cast<int8_t>(value)))
      : "memory", "lr");
  return end;
#else
  for (; count > 0; --count) {
    *to++ = static_cast<int8_t>(value);
  }
  return to;
#endif
}

/// Positions in a row of outputs, [begin, end).
struct Inside {
  int32_t begin;
  int32_t end;
};

/// Returns the range of a row of outputs whose windows are inside the image and contiguous.
Inside undivided_windows(const PackedImages& images, int32_t y) {
  const Window& width = images.width;
  const int32_t top = y * images.height.stride - images.height.padding;
  const int32_t last = width.in + width.padding - width.kernel;
  if (images.height.dilation != 1 || width.dilation != 1 || top < 0 || last < 0 ||
      top + images.height.kernel > images.height.in) {
    return {0, 0};
  }
  const int32_t end = last / width.stride + 1;
  return {(width.padding + width.stride - 1) / width.stride, end < width.out ? end : width.out};
}

/// Copies rows of `bytes` bytes, from one of which to the next there are `from_step` and `to_step`.
ET_INLINE void copy_rows(
    const int8_t* from,
    int32_t from_step,
    int32_t rows,
    int32_t bytes,
    int8_t* to,
    int32_t to_step) {
#ifdef __ARM_FEATURE_MVE
  if (bytes <= 16) {
    __asm__ volatile(
        SAVE_P0
        "vctp.8 %[bytes]; wls lr, %[rows], 2f\n"
        "1:\n"
        "vpstt; vldrbt.8 q0, [%[from]]; vstrbt.8 q0, [%[to]]; add %[from], %[from_step]\n"
        "add %[to], %[to_step]; le lr, 1b\n"
        "2:\n" RESTORE_P0
        : [from] "+r"(from), [to] "+r"(to)
        : [from_step] "r"(from_step), [to_step] "r"(to_step), [rows] "r"(rows), [bytes] "r"(bytes)
        : "memory", "lr", "q0" WITH_GCC(, "p0"));
    return;
  }
#endif
  for (; rows > 0; --rows) {
    copy_bytes(from, bytes, to);
    from += from_step;
    to += to_step;
  }
}

/// Copies the elements under the window at an output position to `to`, in the order of the weights.
/// The window must be one that isn't undivided, because others have faster code.
void gather(
    const PackedLayer& layer,
    const PackedImages& images,
    const int8_t* image,
    int32_t y,
    int32_t x,
    int8_t* to) {
  const int32_t channels = layer.in_channels;
  const int32_t row_bytes = images.width.kernel * channels;
  const int32_t step = images.width.in * channels;
  fill_bytes(layer.input_zero_point, images.height.kernel * row_bytes, to);
  const Taps rows(images.height, y);
  const Taps columns(images.width, x);
  const int32_t count = rows.end - rows.begin;
  if (count <= 0) {
    return;
  }
  const int8_t* from = image +
      ((rows.origin + rows.begin * images.height.dilation) * images.width.in + columns.origin +
       columns.begin * images.width.dilation) *
          channels;
  to += (rows.begin * images.width.kernel + columns.begin) * channels;
  // Columns are contiguous, or copied one by one.
  const bool is_dense = images.width.dilation == 1;
  const int32_t column_bytes = is_dense ? (columns.end - columns.begin) * channels : channels;
  for (int32_t j = columns.begin; j < columns.end; ++j) {
    copy_rows(from, step * images.height.dilation, count, column_bytes, to, row_bytes);
    if (is_dense) {
      return;
    }
    from += images.width.dilation * channels;
    to += channels;
  }
}

#endif

/// Bytes of a row of an image with the padding beside it. Of layers that take no such rows they may
/// be more than 32 bits have.
ET_INLINE uint32_t padded_row_bytes(const PackedLayer& layer, const Window& width) {
  return static_cast<uint32_t>(width.in + 2 * width.padding) * layer.in_channels;
}

/// The rows of an image that a row of windows needs, with their padding, in scratch memory: each
/// replaces the one window_rows() before.
class PaddedRows final {
 public:
  /// @param[in] is_used If false, no other function may be called.
  PaddedRows(
      const PackedLayer& layer,
      const PackedImages& images,
      const int8_t* image,
      int8_t* scratch,
      bool is_used)
      : layer_(layer),
        images_(images),
        image_(image),
        scratch_(scratch),
        count_(window_rows(layer)),
        row_bytes_(static_cast<int32_t>(padded_row_bytes(layer, images.width))) {
    if (is_used) {
      // The padding beside the rows stays.
      std::memset(scratch, layer.input_zero_point, static_cast<size_t>(count_ * row_bytes_));
    }
  }

  /// The row of a number, counted with the padding above, which none of an earlier window is.
  __attribute__((noinline)) const int8_t* row(int32_t number) {
    int8_t* const place = scratch_ + number % count_ * row_bytes_;
    if (number >= next_) {
      next_ = number + 1;
      const int32_t in_row = images_.width.in * layer_.in_channels;
      const int32_t y = number - images_.height.padding;
      int8_t* const to = place + images_.width.padding * layer_.in_channels;
      if (y >= 0 && y < images_.height.in) {
        // In a corrupted program scratch memory may overlap the input.
        std::memmove(to, image_ + y * in_row, static_cast<size_t>(in_row));
      } else {
        std::memset(to, layer_.input_zero_point, static_cast<size_t>(in_row));
      }
    }
    return place;
  }

  /// Copies the elements under the windows at output positions of a row, whose rows row() has
  /// returned, in the order of the weights, and up to seven bytes more; windows are `to_step` bytes
  /// apart.
  void gather(int32_t y, int32_t x, int32_t windows, int8_t* to, int32_t to_step) const {
    const int32_t channels = layer_.in_channels;
    const int32_t step = layer_.dilation[0] * row_bytes_;
    const int32_t size = count_ * row_bytes_;
    const int32_t from_step = layer_.stride[1] * channels;
    const int8_t* const end = scratch_ + size;
    const int8_t* from = scratch_ + y * layer_.stride[0] % count_ * row_bytes_ + x * from_step;
    // Columns are contiguous, or copied one by one.
    const bool is_dense = layer_.dilation[1] == 1;
    const int32_t columns = is_dense ? 1 : layer_.kernel[1];
    const int32_t column_bytes = is_dense ? layer_.kernel[1] * channels : channels;
    const int32_t column_step = layer_.dilation[1] * channels;
#ifdef __ARM_FEATURE_DSP
    if (is_dense && column_bytes <= 16) {
      copy_short_windows(
          from, end, size, step, layer_.kernel[0], from_step, windows, column_bytes, to, to_step);
      return;
    }
#endif
    for (int32_t i = layer_.kernel[0]; i > 0; --i) {
      const int8_t* column = from;
      for (int32_t j = columns; j > 0; --j) {
        copy_words(column, from_step, windows, column_bytes, to, to_step);
        to += column_bytes;
        column += column_step;
      }
      from += step;
      from -= from >= end ? size : 0;
    }
  }

 private:
#ifdef __ARM_FEATURE_DSP
  /// Copies rows of windows, `step` bytes apart, one after the other: two or four words, of at most
  /// seven `bytes` less. A row that would begin at `end` or behind it begins `size` bytes before.
  __attribute__((noinline)) static void copy_short_windows(
      const int8_t* from,
      const int8_t* end,
      int32_t size,
      int32_t step,
      int32_t rows,
      int32_t from_step,
      int32_t windows,
      int32_t bytes,
      int8_t* to,
      int32_t to_step) {
    for (; rows > 0; --rows) {
      const int8_t* part = from;
      int8_t* place = to;
      int32_t left = windows;
      uint32_t a, b, c, d;
#define COPY(loads, stores)                                \
  __asm__ volatile(                                        \
      ".p2align 2\n"                                       \
      "1:\n"                                               \
      "ldr %[a], [%[part]]\n"                              \
      "ldr %[b], [%[part], #4]\n" loads                    \
      "add %[part], %[from_step]\n"                        \
      "str %[a], [%[place]]\n"                             \
      "str %[b], [%[place], #4]\n" stores                  \
      "add %[place], %[to_step]\n"                         \
      "subs %[left], #1\n"                                 \
      "bgt 1b\n"                                           \
      : [part] "+&l"(part),                                \
        [place] "+&l"(place),                              \
        [left] "+&l"(left),                                \
        [a] "=&l"(a),                                      \
        [b] "=&l"(b),                                      \
        [c] "=&l"(c),                                      \
        [d] "=&l"(d)                                       \
      : [from_step] "r"(from_step), [to_step] "r"(to_step) \
      : "memory", "cc")
      if (bytes <= 8) {
        COPY("", "");
      } else {
        COPY(
            "ldr %[c], [%[part], #8]\nldr %[d], [%[part], #12]\n",
            "str %[c], [%[place], #8]\nstr %[d], [%[place], #12]\n");
      }
#undef COPY
      from += step;
      from -= from >= end ? size : 0;
      to += bytes;
    }
  }
#endif

  /// Copies rows of at least one byte, and up to seven bytes more than `bytes`.
  static ET_INLINE void copy_words(
      const int8_t* from,
      int32_t from_step,
      int32_t rows,
      int32_t bytes,
      int8_t* to,
      int32_t to_step) {
#ifdef __ARM_FEATURE_DSP
    const int32_t copied = (bytes + 7) & ~7;
    from_step -= copied;
    to_step -= copied;
    uint32_t first, second;
    int32_t count;
    __asm__ volatile(
        "1:\n"
        "mov %[count], %[copied]\n"
        "2:\n"
        "ldr %[first], [%[from]], #4; ldr %[second], [%[from]], #4; str %[first], [%[to]], #4\n"
        "str %[second], [%[to]], #4; subs %[count], #8; bgt 2b; add %[from], %[from_step]\n"
        "add %[to], %[to_step]; subs %[rows], #1; bgt 1b\n"
        : [from] "+r"(from),
          [to] "+r"(to),
          [rows] "+r"(rows),
          [count] "=&r"(count),
          [first] "=&r"(first),
          [second] "=&r"(second)
        : [copied] "r"(copied), [from_step] "r"(from_step), [to_step] "r"(to_step)
        : "memory", "cc");
#else
    for (; rows > 0; --rows) {
      copy_bytes(from, bytes, to);
      from += from_step;
      to += to_step;
    }
#endif
  }

  const PackedLayer& layer_;
  const PackedImages& images_;
  const int8_t* image_;
  int8_t* scratch_;
  int32_t count_;
  int32_t row_bytes_;
  int32_t next_ = 0;
};

#if !defined(__ARM_FEATURE_MVE)

/// Returns whether the sums of a layer's second channels have 24 bits without their biases.
inline bool has_short_sums(const PackedParts& parts) {
  return parts.layer->group_size != 0 || parts.padded_inner <= kPackedShortSum;
}

#ifdef __ARM_FEATURE_DSP

/// Expands what expand_rows() would for four windows of three columns beside each other: each of
/// the six columns, of `channels` channels, is loaded once.
__attribute__((noinline)) uint32_t* expand_three_columns(
    const int8_t* from,
    int32_t channels,
    int32_t rows,
    int32_t step,
    uint32_t* to) {
#define EXPANDED(column, even, odd) \
  "sxtb16 %[e], %[" column "]\n" even "sxtb16 %[e], %[" column "], ror #8\n" odd
#define STORED(place, offset) "str %[e], [%[" place "]" offset "]\n"
  for (; rows > 0; --rows) {
    const int8_t* p = from;
    const int8_t* q = from + channels;
    uint32_t* second = to + 2 * channels;
    uint32_t* third = second + 2 * channels;
    int32_t count = channels;
    uint32_t a, b, c, e;
    // On Cortex-M4 a store takes one cycle, STM one more than its stores.
    __asm__ volatile(
        ".p2align 2\n"
        "1:\n"
        "ldr %[a], [%[q], %[channels], lsl #1]; ldr %[b], [%[p], %[channels], lsl #2]\n"
        "ldr %[c], [%[q], %[channels], lsl #2]\n" EXPANDED(
            "a",
            STORED("x", ", #12") STORED("y", ", #8") STORED("z", ", #4"),
            STORED("x", ", #28") STORED("y", ", #24") STORED("z", ", #20"))
            EXPANDED(
                "b",
                STORED("y", ", #12") STORED("z", ", #8"),
                STORED("y", ", #28") STORED("z", ", #24"))
                EXPANDED("c", STORED("z", ", #12"), STORED("z", ", #28"))
        "ldr %[c], [%[p], %[channels], lsl #1]; ldr %[b], [%[q]], #4\n"
        "ldr %[a], [%[p]], #4\n" EXPANDED(
            "c",
            STORED("x", ", #8") STORED("y", ", #4") "str %[e], [%[z]], #32\n",
            STORED("x", ", #24") STORED("y", ", #20") STORED("z", ", #-16"))
            EXPANDED(
                "b",
                STORED("x", ", #4") "str %[e], [%[y]], #32\n",
                STORED("x", ", #20") STORED("y", ", #-16"))
                EXPANDED("a", "str %[e], [%[x]], #32\n", STORED("x", ", #-16"))
        "subs %[count], #4; bgt 1b\n"
        : [p] "+&r"(p),
          [q] "+&r"(q),
          [x] "+&r"(to),
          [y] "+&r"(second),
          [z] "+&r"(third),
          [count] "+&r"(count),
          [a] "=&r"(a),
          [b] "=&r"(b),
          [c] "=&r"(c),
          [e] "=&r"(e)
        : [channels] "r"(channels)
        : "memory", "cc");
    from += step;
    to = third;
  }
  return to;
#undef STORED
#undef EXPANDED
}

#endif

/// Expands the pixels at four addresses, of any number of channels. With `has_more`, the bytes
/// after the last one may be read; they are multiplied by zeros.
void expand_pixels(
    const int8_t* const (&from)[kLanes],
    int32_t channels,
    bool has_more,
    uint32_t* to) {
  const int32_t words = (has_more ? channels + 3 : channels) / 4;
  if (words > 0) {
    to = expand_rows(from, words, 1, 0, to);
  }
  if (4 * words < channels) {
    int8_t rest[kLanes][4] = {};
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      copy_bytes(from[lane] + 4 * words, channels % 4, rest[lane]);
    }
    expand_rows({rest[0], rest[1], rest[2], rest[3]}, 1, 1, 0, to);
  }
}

/// Finds four lanes, `step` bytes apart; the last of less than four is repeated.
ET_INLINE void
find_lanes(const int8_t* first, int32_t step, int32_t lanes, const int8_t* (&from)[kLanes]) {
  from[0] = first;
  from[1] = from[0] + (lanes > 1 ? step : 0);
  from[2] = from[1] + (lanes > 2 ? step : 0);
  from[3] = from[2] + (lanes > 3 ? step : 0);
}

/// Fills words of a lane.
__attribute__((noinline)) void fill_lane(uint32_t* to, int32_t words, uint32_t value) {
  for (; words > 0; --words) {
    to[0] = to[kLanes] = value;
    to += 2 * kLanes;
  }
}

/// Expands the elements under the windows at adjacent output positions, for a number of channels
/// that is a multiple of four: all of them, or those of a group, with which `image` begins.
/// `expanded` has room for `size` words; with less than four windows, the last one is repeated.
template <bool kGrouped>
__attribute__((noinline)) void expand_windows(
    const PackedLayer& layer,
    const PackedImages& images,
    const int8_t* image,
    int32_t y,
    int32_t x,
    int32_t lanes,
    uint32_t* expanded,
    int32_t size) {
  const Window& height = images.height;
  const Window& width = images.width;
  const int32_t pixel = layer.in_channels;
  const int32_t channels = kGrouped ? layer.group_size : pixel;
  const int32_t words = channels / 4;
  const int32_t step = width.in * pixel;
  const int32_t kernel = width.kernel;
  const int8_t* from[kLanes];
  // Each window then has a pixel of the image and is close to it: distances fit in 32 bits.
  const bool is_near = !kGrouped && height.dilation == 1 && width.dilation == 1 &&
      height.padding < height.kernel && width.padding < kernel;
  if (is_near && x + lanes <= width.out) {
    const int32_t top = y * height.stride - height.padding;
    const int32_t left = x * width.stride - width.padding;
    const int32_t last = left + (lanes - 1) * width.stride;
    // The rows of the kernel, [begin, end), that are inside the image.
    const int32_t begin = top < 0 ? -top : 0;
    const int32_t end = top + height.kernel > height.in ? height.in - top : height.kernel;
    const int32_t first_byte = (top + begin) * step + left * channels;
    const int32_t end_byte = (top + end - 1) * step + (last + kernel) * channels;
    // Elements that are read beside the rows are inside the image, too, and are replaced by
    // padding.
    if (first_byte >= 0 && end_byte <= height.in * step) {
      const int8_t* const first = image + first_byte;
      const int32_t row_words = kernel * words;
      uint32_t* const rows = expanded + 2 * kLanes * begin * row_words;
      uint32_t* rows_end = nullptr;
#ifdef __ARM_FEATURE_DSP
      if (lanes == kLanes && kernel == 3 && width.stride == 1) {
        rows_end = expand_three_columns(first, channels, end - begin, step, rows);
      }
#endif
      if (rows_end == nullptr) {
        find_lanes(first, width.stride * channels, lanes, from);
        rows_end = expand_rows(from, row_words, end - begin, step, rows);
      }
      if (end - begin == height.kernel && left >= 0 && last + kernel <= width.in) {
        return;
      }
      const uint32_t padding = two_halves(layer.input_zero_point, layer.input_zero_point);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        fill_lane(expanded + lane, begin * row_words, padding);
        fill_lane(rows_end + lane, (height.kernel - end) * row_words, padding);
        const int32_t column = lane < lanes ? left + lane * width.stride : last;
        const int32_t before = std::clamp<int32_t>(-column, 0, kernel);
        const int32_t inside = std::clamp<int32_t>(width.in - column, 0, kernel);
        if (before == 0 && inside == kernel) {
          continue;
        }
        for (uint32_t* row = rows + lane; row < rows_end; row += 2 * kLanes * row_words) {
          fill_lane(row, before * words, padding);
          fill_lane(row + 2 * kLanes * inside * words, (kernel - inside) * words, padding);
        }
      }
      return;
    }
  }
  int32_t tops[kLanes];
  int32_t lefts[kLanes];
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    tops[lane] = y * height.stride - height.padding;
    lefts[lane] = x * width.stride - width.padding;
    if (lane + 1 < lanes && ++x == width.out) {
      x = 0;
      ++y;
    }
  }
  // The padding is at the end of the memory that is written last: it is read before it is
  // overwritten.
  int8_t* const padding = reinterpret_cast<int8_t*>(expanded + size) - channels;
  std::memset(padding, layer.input_zero_point, static_cast<size_t>(channels));
  for (int32_t i = 0; i < height.kernel; ++i) {
    const int8_t* rows[kLanes];
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const int32_t row = tops[lane] + i * height.dilation;
      const bool is_inside = static_cast<uint32_t>(row) < static_cast<uint32_t>(height.in);
      rows[lane] = is_inside ? image + row * step : nullptr;
    }
    for (int32_t j = 0; j < kernel; ++j) {
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t column = lefts[lane] + j * width.dilation;
        const bool is_inside = rows[lane] != nullptr &&
            static_cast<uint32_t>(column) < static_cast<uint32_t>(width.in);
        from[lane] = is_inside ? rows[lane] + column * pixel : padding;
      }
      expanded = expand_rows(from, words, 1, 0, expanded);
    }
  }
}

/// Where outputs are: the distances from one channel's to the next one's, and between pixels.
struct OutputSteps {
  int32_t channel;
  int32_t pixel;
};

/// Returns the steps of a layer; with `kTransposed`, those of `pixels` that are neighbours.
template <bool kTransposed>
ET_INLINE OutputSteps steps_of(const PackedLayer& layer, int32_t pixels) {
  return kTransposed ? OutputSteps{pixels, 1} : OutputSteps{1, layer.channels};
}

/// Stores outputs that lanes_to_outputs() doesn't: those of any layer at one to four pixels, of
/// `pixels` in total.
template <bool kTransposed>
__attribute__((noinline)) void store_pair(
    const PackedParts& parts,
    const int32_t (&sums)[2 * kLanes],
    int32_t channel,
    int32_t lanes,
    int8_t* out,
    int32_t pixels) {
  const PackedLayer& layer = *parts.layer;
  const OutputSteps steps = steps_of<kTransposed>(layer, pixels);
  const int32_t channels = layer.channels;
  const int32_t addend = addend_of(layer);
  const bool is_wide = layer.is_wide != 0;
  for (int32_t i = 0; i < 2 && channel + i < channels; ++i) {
    const int32_t c = channel + i;
    const int32_t at = c * parts.factor_step;
    const Scale scale = {parts.multipliers[at], parts.shifts[at], addend};
    const int32_t* sum = sums + kLanes * i;
    int8_t* to = out + c * steps.channel;
    for (int32_t lane = lanes; lane > 0; --lane) {
      *to = is_wide ? scale_wide(parts, *sum, c) : scale.apply(*sum);
      to += steps.pixel;
      ++sum;
    }
  }
}

/// All output channels of up to four neighbouring pixels of a convolution, or those of a group that
/// `parts` begin with. A function of its own: within a larger one the compiler would keep more on
/// the stack. `kFactorStep` is that of the layer; with `kTransposed`, `size` is the number of all
/// pixels, which are neighbours in the output, else that of a group's channels.
template <int32_t kFactorStep, bool kGrouped = false, bool kTransposed = false>
__attribute__((noinline)) void lanes_to_outputs(
    const PackedParts& parts,
    const uint32_t* expanded,
    int32_t lanes,
    int8_t* out,
    [[maybe_unused]] int32_t size = 0) {
  const int32_t channels = kGrouped ? size : parts.layer->channels;
  const OutputSteps steps = steps_of<kTransposed>(*parts.layer, size);
  const int32_t inner = parts.padded_inner;
  const int8_t* weights = parts.weights;
  int32_t c = 0;
#ifdef __ARM_FEATURE_DSP
  if (lanes == kLanes && parts.layer->is_wide == 0 && has_short_sums(parts) && channels > 1) {
    weights = pairs_to_outputs<kFactorStep, kTransposed>(
        parts, expanded, channels / 2, kTransposed ? steps.channel : steps.pixel, out);
    c = channels & ~1;
  }
#else
  const int32_t addend = addend_of(*parts.layer);
#endif
  for (; c < channels; c += 2) {
    const int32_t first = parts.bias[c];
    const int32_t second = parts.bias[c + 1];
    int32_t sums[2 * kLanes] = {first, first, first, first, second, second, second, second};
#ifdef __ARM_FEATURE_DSP
    weights = dot_lanes(expanded, weights, inner, sums);
#else
    weights = is_any(*parts.layer) ? dot_lanes_wide(*parts.layer, expanded, weights, inner, sums)
                                   : dot_lanes(expanded, weights, inner, sums);
    // The equivalent of pairs_to_outputs() with DSP instructions.
    if (lanes == kLanes && parts.layer->is_wide == 0 && c + 1 < channels) {
      const int32_t at = c * kFactorStep;
      const int32_t next = at + kFactorStep;
      int8_t* const to = out + c * steps.channel;
      store_pixels(sums, {parts.multipliers[at], parts.shifts[at], addend}, to, steps.pixel);
      store_pixels(
          sums + kLanes,
          {parts.multipliers[next], parts.shifts[next], addend},
          to + steps.channel,
          steps.pixel);
      continue;
    }
#endif
    store_pair<kTransposed>(parts, sums, c, lanes, out, size);
  }
}

/// Adds the products of a vector with the weights of two pairs of channels, and returns where the
/// second ones end.
///
/// @param[in] most Products of which the second channels' sums have 24 bits, a multiple of eight.
ET_INLINE const uint32_t* dot_quad(
    const PackedLayer& layer,
    const int8_t* x,
    int32_t eights,
    int32_t most,
    const uint32_t* rest,
    int32_t rest_words,
    const uint32_t* first,
    const uint32_t* second,
    int32_t& s0,
    int32_t& s1,
    int32_t& s2,
    int32_t& s3) {
  for (;;) {
    const int32_t count = eights < most ? eights : most;
    int32_t both0 = begin_second(s0);
    int32_t both2 = begin_second(s2);
    dot_vector(layer, x, count, first, second, s0, both0, s2, both2);
    eights -= count;
    for (; eights == 0 && rest_words > 0; --rest_words) {
      dot_pair(layer, rest, first, s0, both0);
      dot_pair(layer, rest, second, s2, both2);
      ++rest;
      first += 2;
      second += 2;
    }
    s1 = second_sum(s1, both0, s0);
    s3 = second_sum(s3, both2, s2);
    if (eights == 0) {
      return second;
    }
    x += count;
  }
}

/// Computes all outputs of a linear layer with one input, which is not wide.
ET_INLINE void single_to_outputs(const PackedParts& parts, int32_t x, int8_t* out) {
  const Scale scale = {parts.multipliers[0], parts.shifts[0], addend_of(*parts.layer)};
  const int32_t* bias = parts.bias;
  // The first two bytes of eight are a pair's.
  const int8_t* weights = parts.weights;
  int32_t channels = parts.layer->channels;
  for (; channels >= 2; channels -= 2) {
    out[0] = scale.apply(wrapping_add(bias[0], x * weights[0]));
    out[1] = scale.apply(wrapping_add(bias[1], x * second_weight(*parts.layer, weights)));
    bias += 2;
    weights += 8;
    out += 2;
  }
  if (channels > 0) {
    out[0] = scale.apply(wrapping_add(bias[0], x * weights[0]));
  }
}

/// Computes all outputs of one vector; `kFactorStep` is the layer's. With `kIsMany`, for
/// kNeedsMany, fours_of_many() computes most.
template <int32_t kFactorStep, bool kIsMany = false>
void vector_to_outputs(
    const PackedParts& parts,
    const int8_t* in,
    int8_t* out,
    uint32_t needs = kNeedsAll) {
  const bool is_narrow = (needs & kNeedsWide) == 0 || parts.layer->is_wide == 0;
  if ((needs & kNeedsSingle) != 0 && parts.inner == 1 && is_narrow) {
    single_to_outputs(parts, in[0], out);
    return;
  }
  const int32_t channels = parts.layer->channels;
  const int32_t addend = addend_of(*parts.layer);
  const int32_t eights = parts.inner & ~7;
  if ((needs & kNeedsRest) == 0 && eights == 0) {
    __builtin_unreachable();
  }
  // The last inputs, with zeros until there are eight, and how many words they are.
  uint32_t rest[2];
  int32_t rest_words = 0;
  if (const int32_t rest_bytes = (needs & kNeedsRest) != 0 ? parts.inner & 7 : 0) {
    rest[0] = rest[1] = 0;
    copy_bytes(in + eights, rest_bytes, reinterpret_cast<int8_t*>(rest));
    rest_words = (rest_bytes + 3) / 4;
  }
  const int32_t* bias = parts.bias;
  const int32_t* multipliers = parts.multipliers;
  const int8_t* shifts = parts.shifts;
  const auto* first = aligned_cast<const uint32_t>(parts.weights);
  const uint32_t pair_words = static_cast<uint32_t>(parts.padded_inner) / 2;
  const PackedLayer& layer = *parts.layer;
  // There may be eight more of the last ones.
  const bool is_short = (needs & kNeedsLong) == 0 || has_short_sums(parts);
  const int32_t most = is_short ? eights : kPackedShortSum - 8;
  // Used for linear layers.
  const Scale scale = {multipliers[0], shifts[0], addend};
  int32_t c = 0;
#ifdef __ARM_FEATURE_DSP
  if (kIsMany && is_narrow && is_short) {
    c = channels & ~3;
    if (c != 0) {
      fours_of_many(parts, in, eights, rest, rest + rest_words, out, needs);
      bias += c;
      first += c / 2 * pair_words;
      out += c;
    }
  } else
#endif
      if (is_narrow) {
    for (; c + 4 <= channels; c += 4) {
      int32_t s0, s1, s2, s3;
      take_four(bias, s0, s1, s2, s3);
      first = dot_quad(
          layer, in, eights, most, rest, rest_words, first, first + pair_words, s0, s1, s2, s3);
      if constexpr (kFactorStep == 0) {
        store_lanes(s0, s1, s2, s3, scale, out);
      } else {
        store_group(multipliers, shifts, addend, s0, s1, s2, s3, out);
      }
      multipliers += 4 * kFactorStep;
      shifts += 4 * kFactorStep;
      out += 4;
    }
  }
  for (; c < channels; c += 2) {
    int32_t s0 = bias[0], s1 = bias[1];
    const int8_t* x = in;
    do {
      const int8_t* const end = in + eights - x < most ? in + eights : x + most;
      int32_t both = begin_second(s0);
      for (; x != end; x += 4) {
        dot_pair(layer, x, first, s0, both);
        first += 2;
      }
      for (int32_t i = 0; x == in + eights && i < rest_words; ++i) {
        dot_pair(layer, rest + i, first, s0, both);
        first += 2;
      }
      s1 = second_sum(s1, both, s0);
    } while (x != in + eights);
    const bool has_scale = kFactorStep == 0 && (needs & kNeedsWide) == 0;
    out[0] = has_scale ? scale.apply(s0) : scaled(parts, s0, c, needs);
    if (c + 1 < channels) {
      out[1] = has_scale ? scale.apply(s1) : scaled(parts, s1, c + 1, needs);
    }
    bias += 2;
    out += 2;
  }
}

/// The inputs of vectors of a linear layer in a program with `needs`: eights, and the last ones.
struct VectorInputs {
  VectorInputs(const PackedParts& parts, uint32_t needs)
      : eights(parts.inner & ~7), rest_bytes((needs & kNeedsRest) != 0 ? parts.inner & 7 : 0) {
    if ((needs & kNeedsRest) == 0 && eights == 0) {
      __builtin_unreachable();
    }
    // There may be eight more of the last ones.
    const bool is_short = (needs & kNeedsLong) == 0 || has_short_sums(parts);
    most = is_short ? eights : kPackedShortSum - 8;
    rest_words = (rest_bytes + 3) / 4;
  }

  /// Copies the last inputs of a vector to `rest`.
  ET_INLINE void take_rest(const int8_t* in) {
    if (rest_bytes != 0) {
      rest[0] = rest[1] = 0;
      copy_bytes(in + eights, rest_bytes, reinterpret_cast<int8_t*>(rest));
    }
  }

  int32_t eights;
  int32_t rest_bytes;
  /// Inputs whose products have sums of 24 bits.
  int32_t most;
  /// With zeros until there are eight, of which these are not only zeros.
  int32_t rest_words;
  uint32_t rest[2];
};

/// Computes the outputs of vectors that are in fours of channels, of a layer that is not wide: a
/// function of its own, so that the compiler keeps less on the stack. `kIsMany` is
/// vector_to_outputs()'s.
template <bool kIsMany>
ET_NOINLINE void quads_of_vectors(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    uint32_t needs) {
  const PackedLayer& layer = *parts.layer;
  VectorInputs inputs(parts, needs);
  const uint32_t pair_words = static_cast<uint32_t>(parts.padded_inner) / 2;
  const Scale scale = {parts.multipliers[0], parts.shifts[0], addend_of(layer)};
  for (; rows > 0; --rows) {
    inputs.take_rest(in);
#ifdef __ARM_FEATURE_DSP
    if (kIsMany && inputs.most == inputs.eights) {
      const uint32_t* const rest = inputs.rest;
      fours_of_many(parts, in, inputs.eights, rest, rest + inputs.rest_words, out, needs);
      in += parts.inner;
      out += layer.channels;
      continue;
    }
#endif
    const int32_t* bias = parts.bias;
    const auto* first = aligned_cast<const uint32_t>(parts.weights);
    int8_t* to = out;
    int8_t* const end = out + (layer.channels & ~3);
    while (to != end) {
      int32_t s0, s1, s2, s3;
      take_four(bias, s0, s1, s2, s3);
      first = dot_quad(
          layer,
          in,
          inputs.eights,
          inputs.most,
          inputs.rest,
          inputs.rest_words,
          first,
          first + pair_words,
          s0,
          s1,
          s2,
          s3);
      store_lanes(s0, s1, s2, s3, scale, to);
      to += 4;
    }
    in += parts.inner;
    out += layer.channels;
  }
}

/// Computes the outputs of vectors of any layer from a channel on, an even number.
ET_NOINLINE void pairs_of_vectors(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int32_t channel,
    int8_t* out,
    uint32_t needs) {
  const PackedLayer& layer = *parts.layer;
  VectorInputs inputs(parts, needs);
  const bool has_scale = (needs & kNeedsWide) == 0 || layer.is_wide == 0;
  const Scale scale = {parts.multipliers[0], parts.shifts[0], addend_of(layer)};
  for (; rows > 0; --rows) {
    inputs.take_rest(in);
    const int8_t* const end = in + inputs.eights;
    const auto* weights =
        aligned_cast<const uint32_t>(parts.weights + channel * parts.padded_inner);
    for (int32_t c = channel; c < layer.channels; c += 2) {
      int32_t s0 = parts.bias[c], s1 = parts.bias[c + 1];
      const int8_t* x = in;
      do {
        const int8_t* const stop = end - x < inputs.most ? end : x + inputs.most;
        int32_t both = begin_second(s0);
        for (; x != stop; x += 4) {
          dot_pair(layer, x, weights, s0, both);
          weights += 2;
        }
        for (int32_t i = 0; x == end && i < inputs.rest_words; ++i) {
          dot_pair(layer, inputs.rest + i, weights, s0, both);
          weights += 2;
        }
        s1 = second_sum(s1, both, s0);
      } while (x != end);
      out[c] = has_scale ? scale.apply(s0) : scaled(parts, s0, c, needs);
      if (c + 1 < layer.channels) {
        out[c + 1] = has_scale ? scale.apply(s1) : scaled(parts, s1, c + 1, needs);
      }
    }
    in += parts.inner;
    out += layer.channels;
  }
}

/// Computes all outputs of the vectors of a linear layer, one after the other; `kIsMany` is
/// vector_to_outputs()'s.
template <bool kIsMany = false>
ET_INLINE void vectors_to_outputs(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    uint32_t needs) {
  const int32_t channels = parts.layer->channels;
  if ((needs & kNeedsRows) == 0) {
    for (; rows > 0; --rows) {
      vector_to_outputs<0, kIsMany>(parts, in, out, needs);
      in += parts.inner;
      out += channels;
    }
    return;
  }
  const bool is_narrow = (needs & kNeedsWide) == 0 || parts.layer->is_wide == 0;
  if ((needs & kNeedsSingle) != 0 && parts.inner == 1 && is_narrow) {
    for (; rows > 0; --rows) {
      single_to_outputs(parts, *in++, out);
      out += channels;
    }
    return;
  }
  const int32_t quads = is_narrow ? channels & ~3 : 0;
  if (quads != 0) {
    quads_of_vectors<kIsMany>(parts, in, rows, out, needs);
  }
  if (quads != channels) {
    pairs_of_vectors(parts, in, rows, quads, out, needs);
  }
}

/// Computes all outputs of the pixels of a 1x1 layer, or of the rows of a linear layer, whose
/// factor step is 0; with `kTransposed`, those of a channel are neighbours.
template <int32_t kFactorStep, bool kTransposed = false>
void pixels_to_outputs(
    const PackedParts& parts,
    int32_t pixels,
    const int8_t* in,
    uint32_t* expanded,
    int8_t* out) {
  const int32_t in_channels = parts.layer->in_channels;
  const int32_t channels = parts.layer->channels;
  const int32_t all = pixels;
  while (pixels > 0) {
    const int32_t lanes = pixels < kLanes ? pixels : kLanes;
    pixels -= lanes;
    if (!kTransposed && lanes <= (kFactorStep == 0 ? 3 : 2)) {
      if constexpr (kFactorStep == 0) {
        vectors_to_outputs(parts, in, lanes, out, kNeedsAll);
      } else {
        for (int32_t i = 0; i < lanes; ++i) {
          vector_to_outputs<kFactorStep>(parts, in, out);
          in += in_channels;
          out += channels;
        }
      }
      return;
    }
    const int8_t* from[kLanes];
    find_lanes(in, in_channels, lanes, from);
    in = from[kLanes - 1] + in_channels;
    expand_pixels(from, in_channels, pixels * in_channels >= 3, expanded);
    lanes_to_outputs<kFactorStep, false, kTransposed>(parts, expanded, lanes, out, all);
    out += kTransposed ? lanes : lanes * channels;
  }
}

void convolution_dsp(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    uint32_t needs) {
  const PackedLayer& layer = *parts.layer;
  auto* const expanded = aligned_cast<uint32_t>(scratch);
  const bool has_windows = (needs & kNeedsWindows) != 0;
  const bool has_gathered = (needs & kNeedsGathered) != 0;
  if ((!has_windows && !has_gathered) || ((needs & kNeedsPixels) != 0 && is_pointwise(layer))) {
    const int32_t pixels = images.batch * images.height.out * images.width.out;
    pixels_to_outputs<1>(parts, pixels, in, expanded, out);
    return;
  }
  int8_t* const rows = scratch + 2 * kLanes * parts.padded_inner;
  const bool by_bytes = !has_windows || (has_gathered && is_gathered(layer));
  const int32_t window = window_rows(layer);
  int8_t* const gathered =
      rows + static_cast<uint32_t>(window) * padded_row_bytes(layer, images.width);
  const int32_t image_size = images.height.in * images.width.in * layer.in_channels;
  const int32_t pixels = images.height.out * images.width.out;
  for (int32_t n = 0; n < images.batch; ++n) {
    PaddedRows padded(layer, images, in, rows, by_bytes);
    int32_t y = 0;
    int32_t x = 0;
    for (int32_t pixel = 0; pixel < pixels; pixel += kLanes) {
      const int32_t lanes = pixels - pixel < kLanes ? pixels - pixel : kLanes;
      if (by_bytes) {
        const int8_t* from[kLanes];
        const int32_t step = parts.padded_inner + kCopiedMore;
        find_lanes(gathered, step, lanes, from);
        for (int32_t lane = 0; lane < lanes;) {
          for (int32_t i = x == 0 ? window : 0; i > 0; --i) {
            static_cast<void>(padded.row(y * layer.stride[0] + window - i));
          }
          const int32_t in_row = images.width.out - x;
          const int32_t windows = lanes - lane < in_row ? lanes - lane : in_row;
          padded.gather(y, x, windows, gathered + lane * step, step);
          lane += windows;
          x += windows;
          if (x == images.width.out) {
            x = 0;
            ++y;
          }
        }
        // The elements after the last one of each are multiplied by zeros.
        expand_rows(from, parts.padded_inner / 4, 1, 0, expanded);
      } else {
        expand_windows<false>(layer, images, in, y, x, lanes, expanded, 2 * parts.padded_inner);
        for (x += lanes; x >= images.width.out; x -= images.width.out) {
          ++y;
        }
      }
      lanes_to_outputs<1>(parts, expanded, lanes, out);
      out += lanes * layer.channels;
    }
    in += image_size;
  }
}

/// Finds the starts of the windows at up to four output positions, repeating the last one for
/// missing positions, and the next position. Returns whether all of them are inside the image.
ET_INLINE bool find_windows(
    const PackedLayer& layer,
    const PackedImages& images,
    const int8_t* image,
    int32_t& y,
    int32_t& x,
    int32_t lanes,
    const int8_t* (&from)[kLanes]) {
  const Window& height = images.height;
  const Window& width = images.width;
  const int32_t last_top = height.in - 1 - (height.kernel - 1) * height.dilation;
  const int32_t last_left = width.in - 1 - (width.kernel - 1) * width.dilation;
  bool is_inside = true;
  for (int32_t lane = 0; lane < lanes; ++lane) {
    const int32_t top = y * height.stride - height.padding;
    const int32_t left = x * width.stride - width.padding;
    is_inside = is_inside && top >= 0 && top <= last_top && left >= 0 && left <= last_left;
    from[lane] = is_inside ? image + (top * width.in + left) * layer.in_channels : image;
    if (++x == width.out) {
      x = 0;
      ++y;
    }
  }
  for (; lanes < kLanes; ++lanes) {
    from[lanes] = from[lanes - 1];
  }
  return is_inside;
}

void grouped_convolution_dsp(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  auto* const expanded = aligned_cast<uint32_t>(scratch);
  const int32_t inputs = layer.group_size;
  const int32_t groups = layer.in_channels / inputs;
  const int32_t outputs = layer.channels / groups;
  const int32_t column = images.width.dilation * layer.in_channels;
  const int32_t row = images.height.dilation * images.width.in * layer.in_channels;
  const int32_t image_size = images.height.in * images.width.in * layer.in_channels;
  const int32_t pixels = images.height.out * images.width.out;
  for (int32_t n = 0; n < images.batch; ++n) {
    int32_t y = 0;
    int32_t x = 0;
    for (int32_t pixel = 0; pixel < pixels; pixel += kLanes) {
      const int32_t lanes = pixels - pixel < kLanes ? pixels - pixel : kLanes;
      const int32_t first_y = y;
      const int32_t first_x = x;
      const int8_t* from[kLanes];
      const bool is_inside = find_windows(layer, images, in, y, x, lanes, from);
      PackedParts group = parts;
      for (int32_t channel = 0; channel < layer.in_channels; channel += inputs) {
        if (is_inside) {
          const int8_t* rows[kLanes] = {from[0], from[1], from[2], from[3]};
          uint32_t* to = expanded;
          for (int32_t i = images.height.kernel; i > 0; --i) {
            to = expand_rows(rows, inputs / 4, images.width.kernel, column, to);
            for (int32_t lane = 0; lane < kLanes; ++lane) {
              rows[lane] += row;
            }
          }
          for (int32_t lane = 0; lane < kLanes; ++lane) {
            from[lane] += inputs;
          }
        } else {
          expand_windows<true>(
              layer,
              images,
              in + channel,
              first_y,
              first_x,
              lanes,
              expanded,
              2 * parts.padded_inner);
        }
        lanes_to_outputs<1, true>(group, expanded, lanes, out, outputs);
        group.bias += outputs;
        group.multipliers += outputs;
        group.shifts += outputs;
        group.weights += outputs * parts.padded_inner;
        out += outputs;
      }
      out += (lanes - 1) * layer.channels;
    }
    in += image_size;
  }
}

#endif // !__ARM_FEATURE_MVE

#if !defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_MVE)

#ifdef __ARM_FEATURE_MVE

/// The inputs of three windows that are computed at a time, and their outputs.
class ThreeWindows final {
 public:
  /// @param[in] scratch What convolution_scratch() says.
  ThreeWindows(
      const PackedParts& parts,
      const PackedImages& images,
      const int8_t* in,
      int8_t* scratch,
      const int8_t* out)
      : parts_(parts),
        rows_{
            images.height.kernel,
            images.width.kernel * parts.layer->in_channels,
            (images.width.in - images.width.kernel) * parts.layer->in_channels,
            images.width.stride * parts.layer->in_channels},
        outputs_(kWindows * parts.layer->channels) {
    const PackedLayer& layer = *parts.layer;
    if (layer.is_wide != 0 || parts.inner <= 64 || rows_.bytes % 16 != 0 ||
        layer.channels % 4 != 0) {
      return;
    }
    const int32_t in_size = images.batch * images.height.in * images.width.in * layer.in_channels;
    const int32_t out_size = images.batch * images.height.out * images.width.out * layer.channels;
    const auto from = reinterpret_cast<uintptr_t>(in);
    const auto to = reinterpret_cast<uintptr_t>(out);
    const bool overlaps =
        from < to + static_cast<uintptr_t>(out_size) && to < from + static_cast<uintptr_t>(in_size);
    if (overlaps) {
      // The plan keeps the other windows only until a window's outputs are written.
      if (is_pointwise(layer) || outputs_ > parts.inner) {
        return;
      }
      buffer_ = scratch;
    }
    is_used_ = true;
  }

  bool is_used() const {
    return is_used_;
  }

  /// Computes the outputs of the window that begins at `first` and the next two.
  void compute(const int8_t* first, int8_t* out) const {
    const int32_t vectors = rows_.bytes / 16;
    const auto compute = vectors == 3 ? windows_to_outputs<3, true>
        : vectors % 3 == 0            ? windows_to_outputs<3, false>
                                      : windows_to_outputs<1, false>;
    if (buffer_ == nullptr) {
      compute(parts_, rows_, first, out);
    } else {
      compute(parts_, rows_, first, buffer_);
      copy_bytes(buffer_, outputs_, out);
    }
  }

  /// Bytes of three outputs.
  int32_t outputs() const {
    return outputs_;
  }

 private:
  const PackedParts& parts_;
  WindowRows rows_;
  int32_t outputs_;
  int8_t* buffer_ = nullptr;
  bool is_used_ = false;
};

#endif

/// The windows of images, in their order.
struct Windows {
  const PackedLayer& layer;
  const PackedImages& images;
  const int8_t* in;
  int8_t* scratch;
  Inside inside;
  int32_t y;
  int32_t x;
};

/// Copies the elements under the next of Windows, and returns the copy.
ET_NOINLINE const int8_t* next_window(void* windows) {
  Windows& next = *static_cast<Windows*>(windows);
  const PackedLayer& layer = next.layer;
  const PackedImages& images = next.images;
  const int32_t channels = layer.in_channels;
  const int32_t in_row = images.width.in * channels;
  if (next.x == images.width.out) {
    next.x = 0;
    ++next.y;
    if (next.y == images.height.out) {
      next.y = 0;
      next.in += images.height.in * in_row;
    }
    next.inside = undivided_windows(images, next.y);
  }
  const int32_t y = next.y;
  const int32_t x = next.x++;
  if (x >= next.inside.begin && x < next.inside.end) {
    const int32_t row_bytes = images.width.kernel * channels;
    const int8_t* const window = next.in +
        (y * images.height.stride - images.height.padding) * in_row +
        (x * images.width.stride - images.width.padding) * channels;
    copy_rows(window, in_row, images.height.kernel, row_bytes, next.scratch, row_bytes);
  } else {
    gather(layer, images, next.in, y, x, next.scratch);
  }
  return next.scratch;
}

#ifdef __ARM_FEATURE_MVE

/// Computes a layer that are_short_pixels().
__attribute__((noinline)) void convolution_short(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  Windows windows = {layer, images, in, scratch, undivided_windows(images, 0), 0, 0};
  short_rows_of(parts.inner)(
      parts,
      in,
      images.batch * images.height.out * images.width.out,
      out,
      is_pointwise(layer) ? nullptr : next_window,
      &windows);
  clamp_images(layer, images, out);
}

#endif

__attribute__((noinline)) void convolution_mve(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  const PackedLayer& layer = *parts.layer;
  const bool pointwise = is_pointwise(layer);
  int8_t* const first_out = out;
#ifdef __ARM_FEATURE_MVE
  const ThreeWindows three(parts, images, in, scratch, out);
#endif
  const int32_t channels = layer.in_channels;
  const int32_t in_row = images.width.in * channels;
  Windows windows = {layer, images, in, scratch, {0, 0}, 0, 0};
  for (int32_t n = 0; n < images.batch; ++n) {
    for (int32_t y = 0; y < images.height.out; ++y) {
      const Inside inside = undivided_windows(images, y);
      windows.inside = inside;
      windows.y = y;
      const int8_t* const origin = in +
          (y * images.height.stride - images.height.padding) * in_row -
          images.width.padding * channels;
      for (int32_t x = 0; x < images.width.out; ++x) {
        const int8_t* const window = origin + x * images.width.stride * channels;
#ifdef __ARM_FEATURE_MVE
        if (three.is_used() && x >= inside.begin && x + kWindows <= inside.end) {
          three.compute(window, out);
          x += kWindows - 1;
          out += three.outputs();
          continue;
        }
#endif
        windows.x = x;
        rows_to_outputs(parts, pointwise ? window : next_window(&windows), out);
        out += layer.channels;
      }
    }
    in += images.height.in * in_row;
    windows.in = in;
  }
  clamp_images(layer, images, first_out);
}

#endif // !__ARM_FEATURE_DSP || __ARM_FEATURE_MVE

} // namespace

int64_t convolution_scratch(const PackedParts& parts, const Window& width) {
  const PackedLayer& layer = *parts.layer;
  const int64_t gathered = is_gathered(layer) ? round_up_4(parts.inner) : 0;
  if (layer.arrangement == Arrangement::Mve) {
    return gathered;
  }
  const int64_t copied =
      gathered == 0 ? 0 : rows_scratch(layer, width) + kLanes * (gathered + kCopiedMore);
  return 2 * kLanes * parts.padded_inner + copied;
}

ET_NOINLINE void packed_convolution(
    const PackedParts& parts,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    [[maybe_unused]] uint32_t needs) {
#if defined(__ARM_FEATURE_MVE)
  // Neither needs this function's stack.
  if (are_short_pixels(parts)) {
    convolution_short(parts, images, in, scratch, out);
  } else {
    convolution_mve(parts, images, in, scratch, out);
  }
#else
#if !defined(__ARM_FEATURE_DSP)
  if (parts.layer->arrangement == Arrangement::Mve) {
    convolution_mve(parts, images, in, scratch, out);
    return;
  }
#endif
  convolution_dsp(parts, images, in, scratch, out, needs);
  clamp_images(*parts.layer, images, out);
#endif
}

bool takes_grouped([[maybe_unused]] const PackedLayer& layer) {
#if defined(__ARM_FEATURE_MVE)
  return false;
#else
  const int32_t inputs = layer.group_size;
  if (layer.arrangement == Arrangement::Mve || inputs % 4 != 0 || layer.in_channels % inputs != 0) {
    return false;
  }
  const int32_t groups = layer.in_channels / inputs;
  const int32_t taps = layer.kernel[0] * layer.kernel[1];
  return layer.channels % (2 * groups) == 0 && taps <= kPackedShortSum / inputs;
#endif
}

int64_t grouped_scratch(const PackedParts& parts, const Window& /*width*/) {
  return linear_rows_scratch(parts);
}

ET_NOINLINE void packed_grouped_convolution(
    [[maybe_unused]] const PackedParts& parts,
    [[maybe_unused]] const PackedImages& images,
    [[maybe_unused]] const int8_t* in,
    [[maybe_unused]] int8_t* scratch,
    [[maybe_unused]] int8_t* out) {
#if !defined(__ARM_FEATURE_MVE)
  grouped_convolution_dsp(parts, images, in, scratch, out);
  clamp_images(*parts.layer, images, out);
#endif
}

int64_t linear_rows_scratch(const PackedParts& parts) {
  return 2 * kLanes * parts.padded_inner;
}

void packed_linear(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    uint32_t needs) {
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
  if ((needs & kNeedsMany) != 0) {
    vectors_to_outputs<true>(parts, in, rows, out, needs);
  } else {
    vectors_to_outputs(parts, in, rows, out, needs);
  }
#else
#ifndef __ARM_FEATURE_MVE
  if (parts.layer->arrangement != Arrangement::Mve) {
    vectors_to_outputs(parts, in, rows, out, needs);
  } else
#endif
  {
    const int8_t* x = in;
    int8_t* to = out;
    for (int32_t i = rows; i > 0; --i) {
      rows_to_outputs(parts, x, to, needs);
      x += parts.inner;
      to += parts.layer->channels;
    }
  }
#endif
  if ((needs & kNeedsRange) != 0) {
    clamp_outputs(*parts.layer, out, rows * parts.layer->channels);
  }
}

void packed_linear_table(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    const int8_t* table,
    int8_t* out,
    uint32_t needs) {
  packed_linear(parts, in, rows, out, needs);
  look_up(table, out, 1, out, static_cast<size_t>(rows * parts.layer->channels));
}

void packed_linear_rows(
    const PackedParts& parts,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    [[maybe_unused]] int8_t* scratch) {
#if !defined(__ARM_FEATURE_MVE)
  if (parts.layer->arrangement != Arrangement::Mve) {
    pixels_to_outputs<0>(parts, rows, in, aligned_cast<uint32_t>(scratch), out);
    clamp_outputs(*parts.layer, out, rows * parts.layer->channels);
    return;
  }
#endif
#if !defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_MVE)
  packed_linear(parts, in, rows, out, kNeedsAll);
#endif
}

void packed_linear_transposed(
    [[maybe_unused]] const PackedParts& parts,
    [[maybe_unused]] const int8_t* in,
    [[maybe_unused]] int32_t rows,
    [[maybe_unused]] int8_t* out,
    [[maybe_unused]] int8_t* scratch) {
#if !defined(__ARM_FEATURE_MVE)
  pixels_to_outputs<0, true>(parts, rows, in, aligned_cast<uint32_t>(scratch), out);
  clamp_outputs(*parts.layer, out, rows * parts.layer->channels);
#endif
}

void packed_linear(
    const int8_t* packed,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    uint32_t needs) {
  packed_linear(linear_parts(packed), in, rows, out, needs);
}

void packed_linear_table(
    const int8_t* packed,
    const int8_t* in,
    int32_t rows,
    const int8_t* table,
    int8_t* out,
    uint32_t needs) {
  packed_linear_table(linear_parts(packed), in, rows, table, out, needs);
}

void packed_linear_rows(
    const int8_t* packed,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    int8_t* scratch) {
  packed_linear_rows(linear_parts(packed), in, rows, out, scratch);
}

void packed_linear_transposed(
    const int8_t* packed,
    const int8_t* in,
    int32_t rows,
    int8_t* out,
    int8_t* scratch) {
  packed_linear_transposed(linear_parts(packed), in, rows, out, scratch);
}

void packed_convolution(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out,
    uint32_t needs) {
  packed_convolution(image_parts(packed, LayerKind::Convolution), images, in, scratch, out, needs);
}

void packed_grouped_convolution(
    const int8_t* packed,
    const PackedImages& images,
    const int8_t* in,
    int8_t* scratch,
    int8_t* out) {
  packed_grouped_convolution(image_parts(packed, LayerKind::Grouped), images, in, scratch, out);
}

} // namespace torch::executor::native::cortex_m
