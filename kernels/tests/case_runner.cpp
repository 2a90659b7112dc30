// Calls kernels as the runtime does, on the arguments that a file holds, and
// writes what they leave in their outputs. Every tensor has a heap block of
// exactly its size, so that the address sanitizer sees any other access. A kernel that writes to
// another tensor than its outputs must refuse constants there: otherwise the tests fail. The
// tensors of some cases overlap in one block, as those of a corrupted program may. No call may take
// seconds: the work of a kernel is in proportion to the elements of its tensors.
//
//   case_runner CASES RESULTS
//
// kernels/tests/case_file.py has the formats of both files.

#include <sys/time.h>

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include "runtime/executor/optional_parts.h"
#include "runtime/kernel/constant_data.h"
#include "runtime/kernel/kernel_lookup.h"

namespace {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::aten::TensorShapeDynamism;
using executorch::runtime::BoxedEvalueList;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

class File {
 public:
  File(const char* path, const char* mode) : file_(std::fopen(path, mode)) {
    if (file_ == nullptr) {
      std::perror(path);
      std::exit(2);
    }
  }
  ~File() {
    std::fclose(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void read(void* data, size_t size) {
    if (std::fread(data, 1, size, file_) != size) {
      std::fprintf(stderr, "The case file is too short\n");
      std::exit(2);
    }
  }
  template <class T>
  T read() {
    T value;
    read(&value, sizeof(value));
    return value;
  }
  std::string read_string() {
    std::string text(read<uint32_t>(), '\0');
    read(text.data(), text.size());
    return text;
  }
  void write(const void* data, size_t size) {
    if (std::fwrite(data, 1, size, file_) != size) {
      std::perror("write");
      std::exit(2);
    }
  }
  template <class T>
  void write(T value) {
    write(&value, sizeof(value));
  }

 private:
  std::FILE* file_;
};

struct TensorStorage {
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;
  std::vector<int32_t> strides;
  std::unique_ptr<char[]> data;
  std::unique_ptr<TensorImpl> impl;
};

// Owns all that the values of one case point to.
class Case {
 public:
  explicit Case(File& file) {
    name_ = file.read_string();
    const uint32_t count = file.read<uint32_t>();
    for (uint32_t i = 0; i < count; ++i) {
      arguments_.push_back(read_value(file));
    }
    place_tensors();
  }

  const std::string& name() const {
    return name_;
  }
  Span<EValue*> arguments() {
    return {arguments_.data(), arguments_.size()};
  }
  const std::vector<TensorImpl*>& outputs() const {
    return outputs_;
  }
  const std::vector<const TensorImpl*>& inputs() const {
    return inputs_;
  }
  const std::vector<EValue*>& values() const {
    return arguments_;
  }

 private:
  template <class... Args>
  EValue* add(Args&&... args) {
    values_.emplace_back(std::forward<Args>(args)...);
    return &values_.back();
  }

  EValue* read_value(File& file) {
    const char kind = file.read<char>();
    switch (kind) {
      case 'n':
        return add();
      case 'i':
        return add(file.read<int64_t>());
      case 'd':
        return add(file.read<double>());
      case 'b':
        return add(file.read<uint8_t>() != 0);
      case 's': {
        strings_.push_back(file.read_string());
        std::string& text = strings_.back();
        string_refs_.emplace_back(text.data(), text.size());
        return add(&string_refs_.back());
      }
      case 't':
      case 'o': {
        TensorImpl* const impl = read_tensor(file);
        if (kind == 'o') {
          outputs_.push_back(impl);
        } else {
          inputs_.push_back(impl);
        }
        return add(Tensor(impl));
      }
      case 'm': {
        TensorImpl* const impl = read_tensor(file);
        placed_.push_back({impl, file.read<uint32_t>()});
        return add(Tensor(impl));
      }
      case 'I':
        return add(read_list(file, int_lists_, int_elements_, int64_t(0)));
      case 'D':
        return add(read_array(file, double_elements_, double_lists_, double()));
      case 'B':
        return add(read_array(file, bool_elements_, bool_lists_, uint8_t()));
      case 'T':
        return add(read_list(file, tensor_lists_, tensor_elements_, Tensor(nullptr)));
      case 'O':
        return add(read_list(file, optional_lists_, optional_elements_, std::optional<Tensor>()));
      default:
        std::fprintf(stderr, "Unknown kind of value %d\n", kind);
        std::exit(2);
    }
  }

  // Lists that a program holds with their elements.
  template <class T, class Element>
  ArrayRef<T>* read_array(
      File& file,
      std::list<std::vector<Element>>& elements,
      std::list<ArrayRef<T>>& lists,
      Element) {
    const uint32_t count = file.read<uint32_t>();
    elements.emplace_back(count + 1);
    file.read(elements.back().data(), count * sizeof(Element));
    static_assert(sizeof(Element) == sizeof(T));
    lists.emplace_back(reinterpret_cast<const T*>(elements.back().data()), count);
    return &lists.back();
  }

  template <class T, class Lists, class Elements>
  BoxedEvalueList<T>* read_list(File& file, Lists& lists, Elements& elements, T empty) {
    const uint32_t count = file.read<uint32_t>();
    elements.emplace_back(count + 1, empty);
    pointers_.emplace_back(count + 1);
    for (uint32_t i = 0; i < count; ++i) {
      pointers_.back()[i] = read_value(file);
    }
    lists.emplace_back(pointers_.back().data(), elements.back().data(), static_cast<int>(count));
    return &lists.back();
  }

  TensorImpl* read_tensor(File& file) {
    tensors_.emplace_back();
    TensorStorage& tensor = tensors_.back();
    const auto dtype = static_cast<ScalarType>(file.read<uint8_t>());
    const bool dynamic = file.read<uint8_t>() != 0;
    const size_t dims = file.read<uint8_t>();
    // One more element each, because an empty vector has no address.
    tensor.sizes.resize(dims + 1);
    tensor.dim_order.resize(dims + 1);
    tensor.strides.resize(dims + 1);
    file.read(tensor.sizes.data(), dims * sizeof(int32_t));
    file.read(tensor.dim_order.data(), dims);
    executorch::runtime::dim_order_to_stride_nocheck(
        tensor.sizes.data(), tensor.dim_order.data(), dims, tensor.strides.data());
    const uint32_t size = file.read<uint32_t>();
    tensor.data.reset(new char[size]);
    file.read(tensor.data.get(), size);
    tensor.impl = std::make_unique<TensorImpl>(
        dtype,
        static_cast<ssize_t>(dims),
        tensor.sizes.data(),
        tensor.data.get(),
        tensor.dim_order.data(),
        tensor.strides.data(),
        dynamic ? TensorShapeDynamism::DYNAMIC_BOUND : TensorShapeDynamism::STATIC);
    return tensor.impl.get();
  }

  /// Moves tensors to their offsets in one block that ends with the last of them.
  void place_tensors() {
    size_t size = 0;
    for (const auto& [impl, offset] : placed_) {
      size = std::max(size, offset + impl->nbytes());
    }
    block_.reset(new char[size]);
    for (const auto& [impl, offset] : placed_) {
      if (impl->nbytes() > 0) {
        std::memcpy(block_.get() + offset, impl->data(), impl->nbytes());
      }
      impl->set_data(block_.get() + offset);
    }
  }

  std::string name_;
  std::unique_ptr<char[]> block_;
  std::vector<std::pair<TensorImpl*, uint32_t>> placed_;
  std::vector<EValue*> arguments_;
  std::vector<TensorImpl*> outputs_;
  std::vector<const TensorImpl*> inputs_;
  // Lists: their elements must not move.
  std::list<TensorStorage> tensors_;
  std::list<std::string> strings_;
  std::list<ArrayRef<char>> string_refs_;
  std::list<std::vector<double>> double_elements_;
  std::list<ArrayRef<double>> double_lists_;
  std::list<std::vector<uint8_t>> bool_elements_;
  std::list<ArrayRef<bool>> bool_lists_;
  std::list<std::vector<int64_t>> int_elements_;
  std::list<std::vector<Tensor>> tensor_elements_;
  std::list<std::vector<std::optional<Tensor>>> optional_elements_;
  std::list<std::vector<EValue*>> pointers_;
  std::list<BoxedEvalueList<int64_t>> int_lists_;
  std::list<BoxedEvalueList<Tensor>> tensor_lists_;
  std::list<BoxedEvalueList<std::optional<Tensor>>> optional_lists_;
  // Last, as values look at the lists that they point to when they are destroyed.
  std::list<EValue> values_;
};

std::string bytes_of(const TensorImpl& tensor) {
  const char* const data = static_cast<const char*>(tensor.data());
  return std::string(data, data + tensor.nbytes());
}

/// Ends the tests if a kernel writes to a tensor that is no output and, made a constant, is written
/// to as well.
void check_inputs(
    Case& test,
    executorch::runtime::OpFunction kernel,
    const std::vector<std::string>& before) {
  for (size_t i = 0; i < before.size(); ++i) {
    const TensorImpl& input = *test.inputs()[i];
    const std::string after = bytes_of(input);
    if (after == before[i]) {
      continue;
    }
    executorch::runtime::internal::constant_data = {
        reinterpret_cast<uintptr_t>(input.data()), input.nbytes()};
    KernelRuntimeContext context;
    kernel(context, test.arguments());
    executorch::runtime::internal::constant_data = {};
    if (bytes_of(input) != after || context.failure_state() != Error::InvalidProgram) {
      std::fprintf(
          stderr,
          "%s writes to tensor %zu of its inputs, and would to a constant\n",
          test.name().c_str(),
          i);
      std::exit(1);
    }
  }
}

/// Checks packed layers as the loader of a program does, whose checks kernels rely on.
void check_packed(
    KernelRuntimeContext& context,
    executorch::runtime::OpFunction kernel,
    Span<EValue*> arguments) {
  using executorch::runtime::internal::Mark;
  for (const auto& checked : executorch::runtime::internal::kOptionalParts.checked_arguments) {
    if (checked.kernel != kernel || checked.mark != Mark::Packed ||
        checked.position >= arguments.size() || !arguments[checked.position]->isTensor()) {
      continue;
    }
    const Tensor& packed = arguments[checked.position]->payload.as_tensor;
    if (packed.const_data_ptr() != nullptr) {
      const Error error = executorch::runtime::internal::check_packed(packed);
      if (error != Error::Ok) {
        context.fail(error);
      }
    }
  }
}

void run(Case& test, File& results) {
  const auto kernel = executorch::runtime::get_op_function_from_registry(test.name().c_str(), {});
  KernelRuntimeContext context;
  std::vector<std::string> before;
  for (const TensorImpl* input : test.inputs()) {
    before.push_back(bytes_of(*input));
  }
  if (kernel.ok()) {
    check_packed(context, *kernel, test.arguments());
    if (context.failure_state() == Error::Ok) {
      (*kernel)(context, test.arguments());
    }
  } else {
    context.fail(kernel.error());
  }
  results.write(static_cast<uint32_t>(context.failure_state()));
  // The result of an operator on symbols is in its last value.
  const EValue& last = *test.values().back();
  results.write(last.isDouble() ? 'd' : 'i');
  if (last.isDouble()) {
    results.write(last.toDouble());
  } else {
    results.write(
        last.isInt()        ? last.toInt()
            : last.isBool() ? int64_t{last.toBool()}
                            : int64_t{0});
  }
  results.write(static_cast<uint32_t>(test.outputs().size()));
  for (const TensorImpl* output : test.outputs()) {
    results.write(static_cast<uint8_t>(output->dim()));
    results.write(output->sizes().data(), output->sizes().size() * sizeof(int32_t));
    results.write(static_cast<uint32_t>(output->nbytes()));
    results.write(output->data(), output->nbytes());
  }
  if (kernel.ok()) {
    check_inputs(test, *kernel, before);
  }
}

/// Processor time of a call, under sanitizers, beyond which it counts as hung.
constexpr int kMaxSeconds = 10;

/// The operator of the call that runs.
const char* running = "";

[[noreturn]] void give_up(int) {
  std::fprintf(stderr, "a call of %s with few elements takes %d s\n", running, kMaxSeconds);
  std::_Exit(1);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: case_runner CASES RESULTS\n");
    return 2;
  }
  executorch::runtime::runtime_init();
  std::signal(SIGPROF, give_up);
  File cases(argv[1], "rb");
  File results(argv[2], "wb");
  const uint32_t count = cases.read<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) {
    Case test(cases);
    running = test.name().c_str();
    const itimerval limit = {{0, 0}, {kMaxSeconds, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    run(test, results);
  }
  return 0;
}
