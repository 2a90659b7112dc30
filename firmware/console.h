#pragma once

#include <stddef.h>
#include <stdint.h>

/// Text for the console, without stdio. Nothing here is linked into an image whose console is off.

#ifdef __cplusplus
extern "C" {
#endif

/// Writes the characters up to the terminating zero.
void console_text(const char* text);

/// Decimal integers.
void console_unsigned(uint64_t value);
void console_signed(int64_t value);

/// "0x" and eight hexadecimal digits.
void console_hex(uint32_t value);

/// A floating point number given by its parts: (negative ? -1 : 1) * mantissa * 2^exponent, with seven significant digits as
/// C's "%.7g" has them. Integer arithmetic only: a core without double precision need not emulate it.
void console_binary(int negative, uint64_t mantissa, int exponent);

/// A float or a double, also inf, -inf and nan; as console_binary().
void console_float(float value);
void console_double(double value);

/// Reads a line into `line`, without its end, terminated by zero; characters beyond `size` - 1 are dropped. Returns its length, or -1 if
/// there is no more input.
int console_read_line(char* line, size_t size);

/// Parses a decimal number such as "-1.5e-3" from *text and moves *text behind it and the blanks and commas before it. Returns
/// 0 if there is none. Accurate to a few units in the last place.
int console_parse_float(const char** text, float* value);

#ifdef __cplusplus
}
#endif
