#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The channel to a host that runs the image in an emulator: tensors come from and go to its files,
/// and measurements to a report. On hardware there is none (host_none.c) and the application falls
/// back on its built-in example.
///
/// The host names the files on the semihosting command line: `inputs=FILE outputs=FILE report=FILE
/// console=1`, and by host_file() others, all optional: `model=FILE` has the name of the model to
/// run, of several. Tensors are raw, little-endian and in memory order, one sample after the other,
/// within a sample in the order of the method's inputs or outputs. Inputs are padded to multiples
/// of 16 bytes each, outputs are not.

#ifdef __cplusplus
extern "C" {
#endif

/// Exit statuses of an image.
enum {
  kExitPass = 0,
  /// The outputs differ from the expected ones.
  kExitMismatch = 1,
  /// Loading or executing returned an error; the report has its code.
  kExitError = 2,
  /// The core took a fault.
  kExitFault = 3,
  /// The runtime called et_pal_abort().
  kExitAbort = 4,
  /// A file named by the host could not be read or written, or is too short.
  kExitHost = 5,
};

/// The report, as written to the host's file: little-endian 32-bit words in this order.
typedef struct {
  /// kHostReportPass at the end of a run in which everything returned Error::Ok and the expected
  /// outputs, if any, were met; else 0.
  uint32_t pass;
  /// executorch::runtime::Error of the call that failed, else 0.
  uint32_t error;
  /// Samples executed.
  uint32_t samples;
  /// Ticks (board_ticks) of Program::load and load_method together, and of the first
  /// Method::execute.
  uint32_t load_ticks;
  uint32_t execute_ticks;
  /// Bytes used of each arena.
  uint32_t method_used;
  uint32_t planned_used;
  uint32_t temp_used;
  /// Bytes of stack used at the deepest point, of the bytes there are.
  uint32_t stack_used;
  uint32_t stack_size;
} HostReport;

enum { kHostReportPass = 0x53534150 /* "PASS" */ };

/// Reads the command line and the inputs. Returns false if there is no host or it named no inputs.
bool host_open(void);

/// Reads the file that the command line names by `key`, such as "program=". Returns its bytes,
/// 16-byte aligned, which stay where they are until the image ends, and stores their number in
/// `size`; NULL if the command line does not name it. Exits with kExitHost if it cannot be read.
const void* host_file(const char* key, size_t* size);

/// Returns whether somebody is at the console: always on hardware, in an emulator if the command
/// line has `console=1`.
bool host_interactive(void);

/// The next `size` bytes of the inputs, 16-byte aligned, without the padding after them; they stay
/// where they are until the image ends. NULL at the end of the inputs. Exits with kExitHost if
/// there are not as many.
const void* host_read(size_t size);

/// Appends to the outputs.
void host_write(const void* data, size_t size);

/// Fills an arena with a pattern by which host_arena_used() tells what was written since.
void host_arena_paint(void* arena, size_t size);

/// Returns the bytes from the arena's start to the last one written since host_arena_paint();
/// `size` without a host.
size_t host_arena_used(const void* arena, size_t size);

/// Writes outputs and report to the host's files.
void host_close(const HostReport* report);

#ifdef __cplusplus
}
#endif
