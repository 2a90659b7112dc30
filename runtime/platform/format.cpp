#include "runtime/platform/format.h"

#include <cstdint>

namespace executorch {
namespace runtime {
namespace internal {

namespace {

// Appends characters to a buffer of a fixed size.
class Writer {
 public:
  Writer(char* buffer, size_t size) : begin_(buffer), next_(buffer), last_(buffer + size - 1) {}

  void put(char character) {
    if (next_ < last_) {
      *next_++ = character;
    }
  }

  // A field of at least `width` characters.
  void field(const char* text, size_t length, size_t width, bool is_left, char padding) {
    const size_t padding_length = width > length ? width - length : 0;
    for (size_t i = 0; !is_left && i < padding_length; ++i) {
      put(padding);
    }
    for (size_t i = 0; i < length; ++i) {
      put(text[i]);
    }
    for (size_t i = 0; is_left && i < padding_length; ++i) {
      put(' ');
    }
  }

  size_t finish() {
    *next_ = '\0';
    return static_cast<size_t>(next_ - begin_);
  }

 private:
  char* begin_;
  char* next_;
  char* last_;
};

// Long enough for a sign and 64 bits in decimal.
constexpr size_t kNumberSize = 21;

// Writes a number before `end`; returns where it begins.
char* number(uint64_t value, unsigned base, char letter, char* end) {
  do {
    const unsigned digit = static_cast<unsigned>(value % base);
    *--end = static_cast<char>(digit < 10 ? '0' + digit : letter + digit - 10);
    value /= base;
  } while (value != 0);
  return end;
}

// A conversion specification after its '%'.
struct Conversion {
  bool is_left = false;
  char padding = ' ';
  size_t width = 0;
  bool has_precision = false;
  size_t precision = 0;
  // Size in bytes of an integer argument.
  size_t size = sizeof(int);
  char kind = '\0';
};

size_t decimal(const char*& format) {
  size_t value = 0;
  while (*format >= '0' && *format <= '9') {
    value = value * 10 + static_cast<size_t>(*format++ - '0');
  }
  return value;
}

} // namespace

size_t vformat(char* buffer, size_t size, const char* format, va_list arguments) {
  Writer writer(buffer, size);
  while (*format != '\0') {
    if (*format != '%') {
      writer.put(*format++);
      continue;
    }
    const char* start = format++;
    Conversion conversion;
    for (; *format == '-' || *format == '0'; ++format) {
      if (*format == '-') {
        conversion.is_left = true;
      } else {
        conversion.padding = '0';
      }
    }
    conversion.width = decimal(format);
    if (*format == '.') {
      ++format;
      conversion.has_precision = true;
      if (*format == '*') {
        ++format;
        const int precision = va_arg(arguments, int);
        conversion.precision = precision < 0 ? 0 : static_cast<size_t>(precision);
      } else {
        conversion.precision = decimal(format);
      }
    }
    if (*format == 'l') {
      ++format;
      conversion.size = sizeof(long);
      if (*format == 'l') {
        ++format;
        conversion.size = sizeof(long long);
      }
    } else if (*format == 'z' || *format == 't') {
      ++format;
      conversion.size = sizeof(size_t);
    } else if (*format == 'j') {
      ++format;
      conversion.size = sizeof(intmax_t);
    } else {
      while (*format == 'h') {
        ++format;
      }
    }
    conversion.kind = *format == '\0' ? '\0' : *format++;

    char digits[kNumberSize];
    char* const end = digits + kNumberSize;
    switch (conversion.kind) {
      case 'd':
      case 'i': {
        const int64_t value =
            conversion.size > sizeof(int) ? va_arg(arguments, int64_t) : va_arg(arguments, int);
        char* text = number(
            value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value),
            10,
            'a',
            end);
        if (value < 0) {
          *--text = '-';
        }
        writer.field(
            text,
            static_cast<size_t>(end - text),
            conversion.width,
            conversion.is_left,
            conversion.padding);
        break;
      }
      case 'p':
        writer.put('0');
        writer.put('x');
        conversion.size = sizeof(void*);
        ET_FALLTHROUGH;
      case 'x':
      case 'X':
      case 'u': {
        const uint64_t value = conversion.size > sizeof(int) ? va_arg(arguments, uint64_t)
                                                             : va_arg(arguments, unsigned);
        const char* text = number(
            value, conversion.kind == 'u' ? 10 : 16, conversion.kind == 'X' ? 'A' : 'a', end);
        writer.field(
            text,
            static_cast<size_t>(end - text),
            conversion.width,
            conversion.is_left,
            conversion.padding);
        break;
      }
      case 'c':
        digits[0] = static_cast<char>(va_arg(arguments, int));
        writer.field(digits, 1, conversion.width, conversion.is_left, ' ');
        break;
      case 's': {
        const char* text = va_arg(arguments, const char*);
        if (text == nullptr) {
          text = "(null)";
        }
        size_t length = 0;
        while ((!conversion.has_precision || length < conversion.precision) &&
               text[length] != '\0') {
          ++length;
        }
        writer.field(text, length, conversion.width, conversion.is_left, ' ');
        break;
      }
      case '%':
        writer.put('%');
        break;
      case 'e':
      case 'f':
      case 'g':
        writer.field(start, static_cast<size_t>(format - start), 0, false, ' ');
        static_cast<void>(va_arg(arguments, double));
        break;
      default:
        writer.field(start, static_cast<size_t>(format - start), 0, false, ' ');
        static_cast<void>(va_arg(arguments, int));
    }
  }
  return writer.finish();
}

size_t format(char* buffer, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t length = vformat(buffer, size, format, arguments);
  va_end(arguments);
  return length;
}

} // namespace internal
} // namespace runtime
} // namespace executorch
