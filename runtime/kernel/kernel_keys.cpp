// Lookup of kernels by the dtypes and dim orders of a call's tensors.

#include <executorch/runtime/kernel/operator_registry.h>

#include "runtime/kernel/kernel_lookup.h"
#include "runtime/platform/format.h"

namespace executorch::runtime {

namespace internal {

namespace {

// A call has at most that many tensors in a kernel key (kKernelKeyBufSize's bound).
constexpr size_t kMaxKeyTensors = 16;

// The prefix of a kernel key.
constexpr char kKeyVersion[] = "v1/";

OpFunction find(
    Span<const Kernel> kernels,
    const std::string_view& name,
    const std::string_view& overload,
    Span<const TensorMeta> metas) {
  char text[kKernelKeyBufSize];
  const bool has_key =
      metas.size() != 0 && make_kernel_key_string(metas, text, sizeof(text)) == Error::Ok;
  const KernelKey key = has_key ? KernelKey(text) : KernelKey();
  OpFunction fallback = nullptr;
  for (const Kernel& kernel : kernels) {
    if (is_kernel_of(kernel, name, overload)) {
      if (has_key && kernel.kernel_key_ == key) {
        return kernel.op_;
      }
      if (kernel.kernel_key_.is_fallback()) {
        fallback = kernel.op_;
      }
    }
  }
  return fallback;
}

} // namespace

Error make_kernel_key_string(Span<const TensorMeta> key, char* buf, size_t buf_size) {
  if (key.empty()) {
    // The empty key is that of a fallback kernel.
    if (buf_size > 0) {
      buf[0] = '\0';
    }
    return Error::Ok;
  }
  if (buf_size == 0) {
    return Error::InvalidArgument;
  }
  // format() truncates; a key that fills the buffer may have been truncated.
  size_t length = format(buf, buf_size, "%s", kKeyVersion);
  for (size_t i = 0; i < key.size(); ++i) {
    const int dtype = static_cast<int>(key[i].dtype_);
    if (dtype < 0) {
      return Error::InvalidArgument;
    }
    length += format(buf + length, buf_size - length, i == 0 ? "%d;" : "|%d;", dtype);
    const auto& dim_order = key[i].dim_order_;
    for (size_t j = 0; j < dim_order.size(); ++j) {
      length += format(
          buf + length,
          buf_size - length,
          j == 0 ? "%u" : ",%u",
          static_cast<unsigned>(dim_order[j]));
    }
  }
  return length + 1 < buf_size ? Error::Ok : Error::InvalidArgument;
}

bool is_valid_key(const KernelKey& key) {
  return key.is_fallback() || std::strncmp(key.data(), kKeyVersion, std::strlen(kKeyVersion)) == 0;
}

bool has_kernel_with_key(
    Span<const Kernel> kernels,
    const std::string_view& name,
    const std::string_view& overload) {
  for (const Kernel& kernel : kernels) {
    if (!kernel.kernel_key_.is_fallback() && is_kernel_of(kernel, name, overload)) {
      return true;
    }
  }
  return false;
}

OpFunction find_kernel_for_arguments(
    Span<const Kernel> kernels,
    const std::string_view& name,
    const std::string_view& overload,
    Span<EValue*> arguments) {
  TensorMeta metas[kMaxKeyTensors];
  size_t count = 0;
  for (EValue* argument : arguments) {
    if (argument->isTensor()) {
      if (count == kMaxKeyTensors) {
        return find(kernels, name, overload, {});
      }
      const auto& tensor = argument->payload.as_tensor;
      const auto dim_order = tensor.dim_order();
      metas[count++] = TensorMeta(
          tensor.scalar_type(),
          {const_cast<executorch::aten::DimOrderType*>(dim_order.data()), dim_order.size()});
    }
  }
  return find(kernels, name, overload, {metas, count});
}

} // namespace internal

Result<OpFunction> get_op_function_from_registry(
    const char* name,
    Span<const TensorMeta> meta_list,
    Span<const Kernel> kernel_list) {
  const OpFunction kernel = internal::find(kernel_list, name, "", meta_list);
  if (kernel == nullptr) {
    ET_LOG(Error, "no kernel for operator %s", name);
    return Error::OperatorMissing;
  }
  return kernel;
}

Result<OpFunction> get_op_function_from_registry(
    const char* name,
    Span<const TensorMeta> meta_list) {
  return get_op_function_from_registry(name, meta_list, get_registered_kernels());
}

bool registry_has_op_function(const char* name, Span<const TensorMeta> meta_list) {
  return internal::find(get_registered_kernels(), name, "", meta_list) != nullptr;
}

} // namespace executorch::runtime
