#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/program.h>

namespace torch_fusion::testing {

using namespace executorch::aten;
using namespace executorch::runtime;

/// Memory on the heap of exactly a given size, so that the address sanitizer sees any access beyond
/// it.
class Block final {
 public:
  /// @param[in] misalignment Bytes from the last multiple of 64 to the block.
  explicit Block(size_t size, size_t misalignment = 0)
      : memory_(static_cast<uint8_t*>(::operator new(size + misalignment, kAlignment))),
        misalignment_(misalignment),
        size_(size) {}

  uint8_t* data() const {
    return memory_.get() + misalignment_;
  }
  size_t size() const {
    return size_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(uint8_t* memory) const {
      ::operator delete(memory, kAlignment);
    }
  };

  std::unique_ptr<uint8_t, Delete> memory_;
  size_t misalignment_;
  size_t size_;
};

/// The bytes of a file; aborts if it cannot be read.
std::vector<uint8_t> read_file(const std::string& path);

/**
 * Loads a program from memory and runs a method of it, with memory like an application's.
 *
 * Planned memory has the sizes that the program requests, within limits.
 */
class ProgramRunner final {
 public:
  /// The arena size for methods whose size doesn't matter to a test, in bytes.
  static constexpr size_t kLargeArena = 1 << 16;

  /// @param[in] data The program. Must outlive the runner.
  ProgramRunner(const void* data, size_t size) : loader_(data, size) {}

  /// Loads the program and a method.
  Error load(const char* method_name = "forward", size_t method_arena_size = kLargeArena);

  /// Sets every input: tensors of floats to numbers from -0.5 to 1, others to their present value.
  Error set_inputs();

  /// Gives memory to the outputs that have none.
  Error set_outputs();

  /// set_inputs(), set_outputs() and execute().
  Error run();

  Program& program() {
    return **program_;
  }
  Method& method() {
    return **method_;
  }

  /// Bytes that the method took of its arena.
  size_t method_arena_used() const {
    return method_allocator_->used_size();
  }

  /// An output's elements, which must be float.
  std::vector<float> output(size_t index = 0);

 private:
  executorch::extension::BufferDataLoader loader_;
  std::optional<Result<Program>> program_;
  std::vector<Block> planned_;
  std::vector<Span<uint8_t>> planned_spans_;
  std::optional<Block> method_arena_;
  std::optional<MemoryAllocator> method_allocator_;
  std::optional<MemoryAllocator> temp_allocator_;
  std::optional<Block> temp_arena_;
  std::optional<HierarchicalAllocator> planned_memory_;
  std::optional<MemoryManager> memory_manager_;
  std::optional<Result<Method>> method_;
  std::vector<Block> buffers_;
};

} // namespace torch_fusion::testing
