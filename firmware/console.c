#include "firmware/console.h"

#include <string.h>

#include "firmware/board.h"

enum { kDigits = 7, kSmallest = 1000000, kLimit = 10 * kSmallest };

void console_write(const char* text, size_t size) {
  size_t start = 0;
  for (size_t i = 0; i < size; ++i) {
    // A terminal wants a carriage return before the line feed.
    if (text[i] == '\n') {
      board_console_write(text + start, i - start);
      board_console_write("\r", 1);
      start = i;
    }
  }
  board_console_write(text + start, size - start);
}

void console_text(const char* text) {
  console_write(text, strlen(text));
}

void console_unsigned(uint64_t value) {
  char text[20];
  char* start = text + sizeof(text);
  do {
    *--start = (char)('0' + value % 10);
    value /= 10;
  } while (value != 0);
  board_console_write(start, (size_t)(text + sizeof(text) - start));
}

void console_signed(int64_t value) {
  if (value < 0) {
    console_text("-");
    console_unsigned(0 - (uint64_t)value);
  } else {
    console_unsigned((uint64_t)value);
  }
}

void console_hex(uint32_t value) {
  char text[10] = "0x";
  for (int digit = 0; digit < 8; ++digit) {
    text[2 + digit] = "0123456789abcdef"[(value >> (28 - 4 * digit)) & 15];
  }
  board_console_write(text, sizeof(text));
}

/// Writes digits[0, 7) * 10^exponent of the first digit, as "%.7g" does: trailing zeros dropped,
/// scientific below 1e-4 and from 1e7 on.
static void write_digits(uint32_t digits, int exponent) {
  char digit[kDigits];
  int count = 0;
  for (int i = kDigits - 1; i >= 0; --i) {
    digit[i] = (char)('0' + digits % 10);
    digits /= 10;
    if (count == 0 && digit[i] != '0') {
      count = i + 1;
    }
  }
  char text[16];
  int size = 0;
  const int scientific = exponent < -4 || exponent >= kDigits;
  // Digits before the decimal point; negative: zeros right after it.
  const int point = scientific ? 1 : exponent + 1;
  if (point <= 0) {
    text[size++] = '0';
    text[size++] = '.';
  }
  for (int i = point; i < 0; ++i) {
    text[size++] = '0';
  }
  for (int i = 0; i < count || i < point; ++i) {
    if (i == point && point > 0) {
      text[size++] = '.';
    }
    text[size++] = digit[i];
  }
  if (scientific) {
    text[size++] = 'e';
    text[size++] = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    if (exponent >= 100) {
      text[size++] = (char)('0' + exponent / 100);
    }
    text[size++] = (char)('0' + exponent / 10 % 10);
    text[size++] = (char)('0' + exponent % 10);
  }
  board_console_write(text, (size_t)size);
}

void console_binary(int negative, uint64_t mantissa, int exponent) {
  if (negative) {
    console_text("-");
  }
  if (mantissa == 0) {
    console_text("0");
    return;
  }
  // Scale by powers of ten until the integer part has seven digits. The mantissa is kept
  // normalised, so that a step is off by less than 2^-59 and the whole by far less than the eighth
  // digit.
  int decimal = kDigits - 1;
  uint64_t fraction_bits;
  for (;;) {
    const int shift = __builtin_clzll(mantissa);
    mantissa <<= shift;
    exponent -= shift;
    if (exponent > -32 || (exponent > -64 && mantissa >> -exponent >= kLimit)) {
      mantissa /= 10;
      ++decimal;
    } else if (exponent <= -64 || mantissa >> -exponent < kSmallest) {
      mantissa = (mantissa >> 4) * 10;
      exponent += 4;
      --decimal;
    } else {
      fraction_bits = (uint64_t)-exponent;
      break;
    }
  }
  uint32_t digits = (uint32_t)(mantissa >> fraction_bits);
  const uint64_t fraction = mantissa & ((1ull << fraction_bits) - 1);
  const uint64_t half = 1ull << (fraction_bits - 1);
  if (fraction > half || (fraction == half && digits % 2 != 0)) {
    ++digits;
  }
  if (digits == kLimit) {
    digits = kSmallest;
    ++decimal;
  }
  write_digits(digits, decimal);
}

static void write_special(int negative, int is_nan) {
  console_text(is_nan ? "nan" : negative ? "-inf" : "inf");
}

void console_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  // IEEE 754 binary32: 1 bit sign, 8 bits exponent with bias 127, 23 bits fraction.
  const int exponent = (int)(bits >> 23 & 0xFF);
  const uint32_t fraction = bits & 0x7FFFFF;
  if (exponent == 0xFF) {
    write_special((int)(bits >> 31), fraction != 0);
  } else if (exponent == 0) {
    console_binary((int)(bits >> 31), fraction, 1 - 127 - 23);
  } else {
    console_binary((int)(bits >> 31), fraction | 0x800000, exponent - 127 - 23);
  }
}

void console_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  // IEEE 754 binary64: 1 bit sign, 11 bits exponent with bias 1023, 52 bits fraction.
  const int exponent = (int)(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((1ull << 52) - 1);
  if (exponent == 0x7FF) {
    write_special((int)(bits >> 63), fraction != 0);
  } else if (exponent == 0) {
    console_binary((int)(bits >> 63), fraction, 1 - 1023 - 52);
  } else {
    console_binary((int)(bits >> 63), fraction | 1ull << 52, exponent - 1023 - 52);
  }
}

/// The byte of the current line that is to be parsed next; '\n' at its end.
static int next_byte;

static void advance(void) {
  next_byte = board_console_read();
  if (next_byte == '\r') {
    next_byte = '\n';
  }
}

int console_begin_line(void) {
  // Empty lines, among them the second half of "\r\n", are no lines.
  do {
    advance();
  } while (next_byte == '\n');
  return next_byte != 0;
}

static void skip_separators(void) {
  while (next_byte == ' ' || next_byte == '\t' || next_byte == ',') {
    advance();
  }
}

static int is_letter(int byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

size_t console_read_name(char* name, size_t size) {
  skip_separators();
  size_t length = 0;
  while (is_letter(next_byte) || (length > 0 && next_byte >= '0' && next_byte <= '9')) {
    if (length < size) {
      name[length++] = (char)next_byte;
    }
    advance();
  }
  return length;
}

int console_end_line(void) {
  skip_separators();
  const int complete = next_byte == '\n';
  while (next_byte != '\n') {
    advance();
  }
  return complete;
}

/// Consumes a '+' or '-'. Returns whether it was '-'.
static int read_sign(void) {
  const int negative = next_byte == '-';
  if (next_byte == '-' || next_byte == '+') {
    advance();
  }
  return negative;
}

int console_read_float(float* value) {
  skip_separators();
  const int negative = read_sign();
  uint32_t mantissa = 0;
  int exponent = 0;
  int any = 0;
  int fraction = 0;
  for (;; advance()) {
    if (next_byte >= '0' && next_byte <= '9') {
      any = 1;
      if (mantissa < 100000000u) {
        mantissa = mantissa * 10 + (uint32_t)(next_byte - '0');
        exponent -= fraction;
      } else {
        exponent += 1 - fraction;
      }
    } else if (next_byte == '.' && !fraction) {
      fraction = 1;
    } else {
      break;
    }
  }
  if (any && (next_byte == 'e' || next_byte == 'E')) {
    advance();
    const int negative_power = read_sign();
    int power = 0;
    for (; next_byte >= '0' && next_byte <= '9'; advance()) {
      power = power < 1000 ? power * 10 + (next_byte - '0') : power;
    }
    exponent += negative_power ? -power : power;
  }
  if (!any || !(next_byte == ' ' || next_byte == '\t' || next_byte == ',' || next_byte == '\n')) {
    console_end_line();
    return 0;
  }
  float result = (float)mantissa;
  // A float overflows or vanishes long before that.
  exponent = exponent > 60 ? 60 : exponent;
  for (; exponent > 0; --exponent) {
    result *= 10.0f;
  }
  for (; exponent < 0 && result > 0.0f; ++exponent) {
    result /= 10.0f;
  }
  *value = negative ? -result : result;
  return 1;
}
