#include "runtime/platform/format.h"

#include <cstdint>

namespace executorch::runtime::internal {

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
    *--end = static_cast<char>(static_cast<unsigned>(digit < 10 ? '0' : letter - 10) + digit);
    value /= base;
  } while (value != 0);
  return end;
}

// A conversion specification after its '%'.
struct Conversion {
  size_t width;
  // Most characters of a text.
  size_t precision;
  bool is_left;
  char padding;
  char kind;
};

size_t decimal(const char*& format) {
  size_t value = 0;
  while (*format >= '0' && *format <= '9') {
    value = value * 10 + static_cast<size_t>(*format++ - '0');
  }
  return value;
}

// Reads the flags before a width.
void parse_flags(const char*& format, Conversion& conversion) {
  conversion.is_left = false;
  conversion.padding = ' ';
  for (; *format == '-' || *format == '0'; ++format) {
    if (*format == '-') {
      conversion.is_left = true;
    } else {
      conversion.padding = '0';
    }
  }
}

// Reads the length modifier of an integer; returns the bytes that the argument has.
size_t parse_length(const char*& format) {
  switch (*format) {
    case 'l':
      if (*++format != 'l') {
        return sizeof(long);
      }
      ++format;
      return sizeof(long long);
    case 'z':
    case 't':
      ++format;
      return sizeof(size_t);
    case 'j':
      ++format;
      return sizeof(intmax_t);
    default:
      while (*format == 'h') {
        ++format;
      }
      return sizeof(int);
  }
}

void put_integer(Writer& writer, const Conversion& conversion, uint64_t value, char sign) {
  char digits[kNumberSize];
  char* const end = digits + kNumberSize;
  const bool is_hexadecimal = (conversion.kind | 0x20) == 'x' || conversion.kind == 'p';
  char* text = number(value, is_hexadecimal ? 16 : 10, conversion.kind == 'X' ? 'A' : 'a', end);
  if (sign != '\0') {
    *--text = sign;
  }
  writer.field(
      text,
      static_cast<size_t>(end - text),
      conversion.width,
      conversion.is_left,
      conversion.padding);
}

void put_text(Writer& writer, const Conversion& conversion, const char* text) {
  if (text == nullptr) {
    text = "(null)";
  }
  size_t length = 0;
  while (length < conversion.precision && text[length] != '\0') {
    ++length;
  }
  writer.field(text, length, conversion.width, conversion.is_left, ' ');
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
    parse_flags(format, conversion);
    conversion.width = decimal(format);
    conversion.precision = SIZE_MAX;
    if (*format == '.') {
      ++format;
      if (*format == '*') {
        ++format;
        const int precision = va_arg(arguments, int);
        conversion.precision = precision < 0 ? 0 : static_cast<size_t>(precision);
      } else {
        conversion.precision = decimal(format);
      }
    }
    const bool is_long = parse_length(format) > sizeof(int);
    conversion.kind = *format == '\0' ? '\0' : *format++;
    switch (conversion.kind) {
      case 'd':
      case 'i': {
        const int64_t value = is_long ? va_arg(arguments, int64_t) : va_arg(arguments, int);
        const uint64_t bits = static_cast<uint64_t>(value);
        put_integer(writer, conversion, value < 0 ? 0 - bits : bits, value < 0 ? '-' : '\0');
        break;
      }
      case 'p':
        writer.put('0');
        writer.put('x');
        put_integer(writer, conversion, va_arg(arguments, uintptr_t), '\0');
        break;
      case 'x':
      case 'X':
      case 'u': {
        const uint64_t value = is_long ? va_arg(arguments, uint64_t) : va_arg(arguments, unsigned);
        put_integer(writer, conversion, value, '\0');
        break;
      }
      case 'c': {
        const char character = static_cast<char>(va_arg(arguments, int));
        writer.field(&character, 1, conversion.width, conversion.is_left, ' ');
        break;
      }
      case 's':
        put_text(writer, conversion, va_arg(arguments, const char*));
        break;
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

} // namespace executorch::runtime::internal
