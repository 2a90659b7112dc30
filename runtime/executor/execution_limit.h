#pragma once

#include <cstdint>

namespace torch_fusion {

/**
 * Instructions of a program that one execution may run unless set_instruction_limit() says
 * otherwise. No program that a microcontroller has the memory for comes near: a loop over each
 * element of a megabyte takes six million.
 */
inline constexpr uint32_t kDefaultInstructionLimit = 1u << 23;

/**
 * Bounds how many instructions of a program one execution may run from now on, in all methods (on a
 * host: those that this thread executes). Beyond that, Method::execute() and Method::step() return
 * Error::InvalidProgram.
 *
 * An instruction is one of the program's, such as the call of an operator; how long one takes is
 * the operator's. A program without loops runs within the number that
 * MethodMeta::num_instructions() gives.
 *
 * For images that load their programs (//runtime). Compiled ones have a fixed bound on their jumps
 * back instead.
 */
void set_instruction_limit(uint32_t instructions);

} // namespace torch_fusion
