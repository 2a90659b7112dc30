#include "firmware/error_text.h"

#include "firmware/console.h"

namespace torch_fusion {

using executorch::runtime::Error;

const char* error_text(Error error) {
  switch (error) {
    case Error::InvalidProgram:
      return "the bytes are no program that this runtime can run, or they are damaged; export the "
             "model again and rebuild";
    case Error::InvalidExternalData:
      return "the program keeps weights in another file; export it with the weights inside";
    case Error::InvalidArgument:
      return "an input or an operator's argument does not fit the model's example inputs, or the "
             "program is not 16-byte aligned or has no such method; the messages above say which";
    case Error::InvalidType:
      return "a value of the program has another type than its operator expects; export the model "
             "again with this version";
    case Error::OperatorMissing:
      return "the program calls an operator that is not in this image: rebuild, so that the "
             "registry is made from this program";
    case Error::NotSupported:
      return "the program, or what a kernel gets, is of a kind that this image does not support; "
             "the "
             "messages above name it";
    case Error::NotImplemented:
      return "the program uses a feature that this runtime does not have; the messages above name "
             "it";
    case Error::MemoryAllocationFailed:
    case Error::OutOfResources:
      return "an arena is too small: rebuild, so that the memory plan is made from this program";
    case Error::NotFound:
      return "a segment of the program, or memory for a kernel, is not there; export the model "
             "again";
    case Error::AccessFailed:
      return "the program could not be read";
    case Error::InvalidState:
      return "a call came at the wrong time, such as execute() before all inputs are set";
    case Error::DelegateInvalidCompatibility:
    case Error::DelegateMemoryAllocationFailed:
    case Error::DelegateInvalidHandle:
      return "the program is lowered for another core or backend than this image's; export it for "
             "this core, or for the portable backend";
    default:
      return "an unexpected error of the runtime; please report it with the program";
  }
}

void write_error(const char* step, Error error) {
  console_text("ERROR ");
  console_text(step);
  console_text(": ");
  // "Error::InvalidProgram" without its scope.
  console_text(executorch::runtime::to_string(error) + sizeof("Error::") - 1);
  console_text(" (");
  console_hex(static_cast<uint32_t>(error));
  console_text("): ");
  console_text(error_text(error));
  console_text("\n");
}

} // namespace torch_fusion
