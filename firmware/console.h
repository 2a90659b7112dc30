#pragma once

#include <stddef.h>
#include <stdint.h>

/// Writes text to the console, without stdio. Nothing here is linked into an image whose console is
/// off.

#ifdef __cplusplus
extern "C" {
#endif

/// Writes `size` characters; a line feed as carriage return and line feed.
void console_write(const char* text, size_t size);

/// Writes the characters up to the terminating zero.
void console_text(const char* text);

/// Decimal integers.
void console_unsigned(uint64_t value);
void console_signed(int64_t value);

/// "0x" and eight hexadecimal digits.
void console_hex(uint32_t value);

/// A floating point number given by its parts: (negative ? -1 : 1) * mantissa * 2^exponent, with
/// seven significant digits as C's "%.7g" has them. Integer arithmetic only: a core without double
/// precision need not emulate it.
void console_binary(int negative, uint64_t mantissa, int exponent);

/// A float or a double, also inf, -inf and nan; as console_binary().
void console_float(float value);
void console_double(double value);

/// Reading a line of numbers: console_begin_line(), then console_read_float() as often as numbers
/// are wanted. It reads a decimal number such as "-1.5e-3", after blanks and commas, accurate to a
/// few units in the last place. Returns 0 if there is none left on the line or what is there is no
/// number; the rest of the line is then consumed. console_begin_line() returns 0 if a zero comes in
/// place of a line, with which a frame begins (firmware/frame.h).
int console_begin_line(void);
int console_read_float(float* value);

/// Reads a name of letters, digits and underscores, after blanks and commas, if what is there
/// begins with a letter or an underscore. Stores its characters, of a longer one the first `size`,
/// without a terminating zero. Returns how many these are; 0 if there is no name.
size_t console_read_name(char* name, size_t size);

/// Consumes the rest of the line. Returns whether there was nothing but blanks and commas.
int console_end_line(void);

#ifdef __cplusplus
}
#endif
