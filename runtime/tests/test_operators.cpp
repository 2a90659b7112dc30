#include "runtime/tests/test_operators.h"

#include "runtime/kernel/constant_data.h"

namespace torch_fusion::testing {

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

bool are_floats(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b) {
  if (a.scalar_type() == ScalarType::Float && b.scalar_type() == ScalarType::Float &&
      a.numel() == b.numel()) {
    return true;
  }
  ctx.fail(Error::InvalidArgument);
  return false;
}

} // namespace

Tensor& increment(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if (are_floats(ctx, self, out)) {
    for (ssize_t i = 0; i < self.numel(); ++i) {
      out.mutable_data_ptr<float>()[i] = self.const_data_ptr<float>()[i] + 1;
    }
  }
  return out;
}

Tensor& at_least(KernelRuntimeContext& ctx, const Tensor& self, Tensor& out) {
  if (self.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Bool ||
      self.numel() < 1 || out.numel() != 1) {
    ctx.fail(Error::InvalidArgument);
    return out;
  }
  *out.mutable_data_ptr<bool>() = self.const_data_ptr<float>()[0] >= 3;
  return out;
}

Tensor& sum(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b, Tensor& out) {
  if (are_floats(ctx, a, out) && are_floats(ctx, b, out)) {
    for (ssize_t i = 0; i < out.numel(); ++i) {
      out.mutable_data_ptr<float>()[i] =
          a.const_data_ptr<float>()[i] + b.const_data_ptr<float>()[i];
    }
  }
  return out;
}

void inspect(KernelRuntimeContext& ctx, Span<EValue*> arguments) {
  if (arguments.size() < 10) {
    ctx.fail(Error::InvalidProgram);
    return;
  }
  const auto integers = arguments[0]->tryToIntList();
  const auto doubles = arguments[1]->tryToDoubleList();
  const auto flags = arguments[2]->tryToBoolList();
  const auto text = arguments[3]->tryToString();
  const auto tensors = arguments[4]->tryToTensorList();
  const auto optional_tensors = arguments[5]->tryToListOptionalTensor();
  const auto none = arguments[6]->tryToOptional<int64_t>();
  const auto number = arguments[7]->tryToDouble();
  const auto flag = arguments[8]->tryToBool();
  const auto out = arguments[9]->tryToTensor();
  if (!integers.ok() || !doubles.ok() || !flags.ok() || !text.ok() || !tensors.ok() ||
      !optional_tensors.ok() || !none.ok() || !number.ok() || !flag.ok() || !out.ok()) {
    ctx.fail(Error::InvalidType);
    return;
  }
  float* result = out->mutable_data_ptr<float>();
  if (out->scalar_type() != ScalarType::Float || out->numel() != 2 || result == nullptr ||
      executorch::runtime::internal::is_constant_data(result)) {
    ctx.fail(Error::InvalidArgument);
    return;
  }
  const auto equals = [](const auto& list, auto... expected) {
    size_t i = 0;
    return list.size() == sizeof...(expected) && ((list[i++] == expected) && ...);
  };
  const bool is_good = equals(*integers, 3, -4, 3) && equals(*doubles, 0.5, -1.5) &&
      equals(*flags, true, false, true) && *text == "text" && tensors->size() == 2 &&
      (*tensors)[1].numel() == 2 && optional_tensors->size() == 3 &&
      (*optional_tensors)[0].has_value() && !(*optional_tensors)[1].has_value() &&
      !(*optional_tensors)[2].has_value() && !none->has_value() && *number == 2.5 && *flag;
  result[0] = is_good ? 1.0f : 0.0f;
  result[1] = static_cast<float>(
      integers->size() + doubles->size() + flags->size() + tensors->size() +
      optional_tensors->size());
}

} // namespace torch_fusion::testing
