/// Calls kernels on the arguments that a file of the host's holds, as case_runner.cpp does on the
/// host; kernels/tests/case_file.py has the formats of the file ("cases=") and of the results.

#include <cstdint>
#include <cstring>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BoxedEvalueList;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

constexpr size_t kMaxArguments = 20;
constexpr size_t kMaxItems = 8;
constexpr size_t kMaxDims = 8;
constexpr size_t kMaxName = 64;
constexpr size_t kTensorBytes = 0x40000;
/// Written around every tensor, and looked for after the call.
constexpr uint8_t kGuard = 0x5a;
constexpr size_t kGuardBytes = 16;

class Reader {
 public:
  explicit Reader(const uint8_t* data) : data_(data) {}

  template <class T>
  T read() {
    T value;
    std::memcpy(&value, bytes(sizeof(value)), sizeof(value));
    return value;
  }
  const uint8_t* bytes(size_t size) {
    const uint8_t* const begin = data_;
    data_ += size;
    return begin;
  }

 private:
  const uint8_t* data_;
};

template <class T>
void write(T value) {
  host_write(&value, sizeof(value));
}

struct TensorStorage {
  int32_t sizes[kMaxDims];
  uint8_t dim_order[kMaxDims];
  int32_t strides[kMaxDims];
  alignas(TensorImpl) uint8_t impl[sizeof(TensorImpl)];
  TensorImpl* tensor;
  uint8_t* data;
  size_t size;
};

struct List {
  EValue* pointers[kMaxItems];
  int64_t items[kMaxItems];
  alignas(BoxedEvalueList<int64_t>) uint8_t boxed[sizeof(BoxedEvalueList<int64_t>)];
};

TensorStorage tensors[kMaxArguments];
List lists[kMaxArguments];
alignas(EValue) uint8_t values[kMaxArguments * kMaxItems][sizeof(EValue)];
alignas(16) uint8_t memory[kTensorBytes];
size_t tensor_count;
size_t list_count;
size_t value_count;
size_t memory_used;
TensorStorage* outs[kMaxArguments];
size_t out_count;
int failures = 0;

void fail(const char* text) {
  console_text(text);
  console_text("\n");
  ++failures;
}

template <class... Args>
EValue* add(Args... args) {
  return new (values[value_count++]) EValue(args...);
}

/// Allocates a tensor with guards before and after it.
uint8_t* allocate(size_t size) {
  uint8_t* const begin = memory + memory_used + kGuardBytes;
  std::memset(begin - kGuardBytes, kGuard, kGuardBytes);
  std::memset(begin + size, kGuard, kGuardBytes);
  memory_used += (size + 2 * kGuardBytes + 15) & ~size_t{15};
  return begin;
}

bool guarded(const TensorStorage& tensor) {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (tensor.data[tensor.size + i] != kGuard || *(tensor.data - 1 - i) != kGuard) {
      return false;
    }
  }
  return true;
}

EValue* read_value(Reader& reader);

EValue* read_tensor(Reader& reader, bool is_out) {
  TensorStorage& tensor = tensors[tensor_count++];
  const auto dtype = static_cast<ScalarType>(reader.read<uint8_t>());
  reader.read<uint8_t>();
  const size_t dims = reader.read<uint8_t>();
  std::memcpy(tensor.sizes, reader.bytes(4 * dims), 4 * dims);
  std::memcpy(tensor.dim_order, reader.bytes(dims), dims);
  executorch::runtime::dim_order_to_stride_nocheck(
      tensor.sizes, tensor.dim_order, dims, tensor.strides);
  tensor.size = reader.read<uint32_t>();
  tensor.data = allocate(tensor.size);
  std::memcpy(tensor.data, reader.bytes(tensor.size), tensor.size);
  tensor.tensor = new (tensor.impl) TensorImpl(
      dtype,
      static_cast<ssize_t>(dims),
      tensor.sizes,
      tensor.data,
      tensor.dim_order,
      tensor.strides);
  if (is_out) {
    outs[out_count++] = &tensor;
  }
  return add(Tensor(tensor.tensor));
}

EValue* read_value(Reader& reader) {
  const char kind = reader.read<char>();
  switch (kind) {
    case 'i':
      return add(reader.read<int64_t>());
    case 'd':
      return add(reader.read<double>());
    case 'b':
      return add(reader.read<uint8_t>() != 0);
    case 't':
    case 'o':
      return read_tensor(reader, kind == 'o');
    case 'I': {
      const uint32_t count = reader.read<uint32_t>();
      List& list = lists[list_count++];
      for (uint32_t i = 0; i < count; ++i) {
        list.pointers[i] = read_value(reader);
      }
      return add(new (list.boxed)
                     BoxedEvalueList<int64_t>(list.pointers, list.items, static_cast<int>(count)));
    }
    default:
      return add();
  }
}

void run_case(Reader& reader) {
  tensor_count = list_count = value_count = out_count = memory_used = 0;
  char name[kMaxName + 1] = {};
  const uint32_t length = reader.read<uint32_t>();
  std::memcpy(name, reader.bytes(length), length);
  const uint32_t count = reader.read<uint32_t>();
  EValue* arguments[kMaxArguments];
  for (uint32_t i = 0; i < count; ++i) {
    arguments[i] = read_value(reader);
  }
  KernelRuntimeContext context;
  const auto kernel = executorch::runtime::get_op_function_from_registry(name, {});
  if (kernel.ok()) {
    (*kernel)(context, Span<EValue*>(arguments, count));
  } else {
    context.fail(kernel.error());
  }
  for (size_t i = 0; i < tensor_count; ++i) {
    if (!guarded(tensors[i])) {
      fail("A kernel wrote outside of its output");
    }
  }
  write(static_cast<uint32_t>(context.failure_state()));
  write('i');
  write(int64_t{0});
  write(static_cast<uint32_t>(out_count));
  for (size_t i = 0; i < out_count; ++i) {
    const TensorStorage& out = *outs[i];
    const auto sizes = out.tensor->sizes();
    write(static_cast<uint8_t>(sizes.size()));
    host_write(sizes.data(), 4 * sizes.size());
    write(static_cast<uint32_t>(out.size));
    host_write(out.data, out.size);
  }
}

} // namespace

int main() {
  host_open();
  size_t size = 0;
  const auto* const cases = static_cast<const uint8_t*>(host_file("cases=", &size));
  if (cases != nullptr) {
    Reader reader(cases);
    const uint32_t count = reader.read<uint32_t>();
    for (uint32_t i = 0; i < count; ++i) {
      run_case(reader);
    }
  }
  HostReport report = {};
  report.pass = failures == 0 && cases != nullptr ? kHostReportPass : 0;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(report.pass != 0 ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return report.pass != 0 ? kExitPass : kExitMismatch;
}
