/// Compares the inner functions with Cortex-M code of their own with plain loops on integers. The
/// inputs are small whole numbers, so that floats give exactly the same results. Writes beside the
/// outputs count as failures.

#include <cstddef>
#include <cstdint>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"
#include "kernels/portable/convolution.h"
#include "kernels/portable/gemm.h"
#include "kernels/portable/op_linear.h"
#include "kernels/portable/pool.h"
#include "kernels/portable/relu.h"

namespace {

using torch::executor::native::ConvolutionShape;

constexpr int32_t kSize = 8192;
constexpr float kUntouched = 12345.0f;

float in[kSize];
float weight[kSize];
float out[kSize];
int32_t in_numbers[kSize];
int32_t weight_numbers[kSize];
int32_t expected[kSize];
int failures = 0;
uint32_t state = 1;

/// A number in [low, high], by a linear congruential generator.
int32_t draw(int32_t low, int32_t high) {
  state = state * 1664525u + 1013904223u;
  return low + static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(high - low + 1));
}

void clear_out() {
  for (float& value : out) {
    value = kUntouched;
  }
}

void expect_out(int32_t count, const char* function) {
  bool holds = out[count] == kUntouched && out[count + 1] == kUntouched;
  for (int32_t i = 0; i < count; ++i) {
    holds = holds && out[i] == static_cast<float>(expected[i]);
  }
  if (!holds) {
    console_text(function);
    console_text(" differs\n");
    ++failures;
  }
}

/// Sets the size of the result along an axis; 0 if there is none.
void set_out(torch::executor::native::Window& axis, bool transposed, int32_t output_padding) {
  const int32_t reach = axis.dilation * (axis.kernel - 1) + 1;
  if (transposed) {
    axis.out = (axis.in - 1) * axis.stride - 2 * axis.padding + reach + output_padding;
  } else {
    const int32_t room = axis.in + 2 * axis.padding - reach;
    axis.out = room < 0 ? 0 : room / axis.stride + 1;
  }
}

void check_convolution() {
  ConvolutionShape shape;
  shape.batch = draw(1, 2);
  shape.groups = draw(1, 3);
  shape.in_channels = draw(1, 4);
  shape.out_channels = draw(1, 9);
  shape.transposed = draw(0, 2) == 0;
  int32_t count = shape.batch * shape.groups * shape.out_channels;
  int32_t in_count = shape.batch * shape.groups * shape.in_channels;
  int32_t weight_count = shape.groups * shape.in_channels * shape.out_channels;
  // Depth is rarer.
  for (int32_t i = draw(0, 3) == 0 ? 0 : 1; i < 3; ++i) {
    auto& axis = shape.axes[i];
    axis.in = draw(1, i == 0 ? 3 : 9);
    axis.kernel = draw(1, 4);
    axis.stride = draw(1, 3);
    axis.padding = draw(0, 3);
    axis.dilation = draw(1, 3);
    set_out(axis, shape.transposed, draw(0, axis.stride - 1));
    if (axis.out < 1 || axis.out > 100) {
      return;
    }
    count *= axis.out;
    in_count *= axis.in;
    weight_count *= axis.kernel;
  }
  if (count + 2 > kSize || in_count > kSize || weight_count > kSize) {
    return;
  }
  const float* const bias = draw(0, 1) != 0 ? in : nullptr;
  clear_out();
  if (shape.transposed) {
    torch::executor::native::transposed_convolution(in, weight, bias, out, shape);
  } else {
    torch::executor::native::convolution(in, weight, bias, out, shape);
  }
  torch::executor::native::convolution<int32_t>(
      in_numbers, weight_numbers, bias != nullptr ? in_numbers : nullptr, expected, shape);
  expect_out(count, shape.transposed ? "transposed convolution" : "convolution");
}

void check_max_pool() {
  torch::executor::native::Window axes[2];
  for (auto& axis : axes) {
    axis.in = draw(2, 12);
    axis.kernel = 2;
    axis.stride = 2;
    axis.out = axis.in / 2;
  }
  const int32_t planes = draw(1, 3);
  // Some inputs have both signs, others are nonnegative.
  const int32_t start = draw(0, 400);
  clear_out();
  const torch::executor::native::ContiguousPlanes order;
  torch::executor::native::max_pool(
      in + start, out, nullptr, planes, order, order, axes[0], axes[1]);
  torch::executor::native::max_pool(
      in_numbers + start, expected, nullptr, planes, order, order, axes[0], axes[1]);
  expect_out(planes * axes[0].out * axes[1].out, "max_pool");
}

void check_linear() {
  const size_t rows = static_cast<size_t>(draw(0, 3));
  const size_t in_features = static_cast<size_t>(draw(0, 20));
  const size_t out_features = static_cast<size_t>(draw(0, 20));
  const bool has_bias = draw(0, 1) != 0;
  clear_out();
  torch::executor::native::linear(
      in, weight, has_bias ? in : nullptr, out, rows, in_features, out_features);
  torch::executor::native::linear<int32_t>(
      in_numbers,
      weight_numbers,
      has_bias ? in_numbers : nullptr,
      expected,
      rows,
      in_features,
      out_features);
  expect_out(static_cast<int32_t>(rows * out_features), "linear");
}

/// A layer with more results than the address space has, none of which fits.
void check_refused_linear() {
  using torch::executor::native::Tensor;
  using TensorImpl = executorch::aten::TensorImpl;
  int32_t sizes[] = {1 << 16, 0};
  int32_t none[] = {0};
  uint8_t order[] = {0, 1};
  int32_t strides[] = {1, 1};
  TensorImpl matrix(executorch::aten::ScalarType::Float, 2, sizes, in, order, strides);
  TensorImpl result(executorch::aten::ScalarType::Float, 1, none, out, order, strides);
  Tensor results(&result);
  executorch::runtime::KernelRuntimeContext context;
  // There are no variants: with a dynamic shape, the result would be resized.
  torch::executor::native::linear_out<torch::executor::native::Selection<~uint64_t{0}, 0>>(
      context, Tensor(&matrix), Tensor(&matrix), {}, results);
  if (context.failure_state() != executorch::runtime::Error::InvalidArgument) {
    console_text("a linear layer of 2^32 results is not refused\n");
    ++failures;
  }
}

void check_relu() {
  const int32_t count = draw(0, 40);
  clear_out();
  torch::executor::native::relu(in, out, static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    expected[i] = in_numbers[i] > 0 ? in_numbers[i] : 0;
  }
  expect_out(count, "relu");
}

} // namespace

int main() {
  host_open();
  for (int32_t i = 0; i < kSize; ++i) {
    in_numbers[i] = draw(-7, 7);
    weight_numbers[i] = draw(-7, 7);
    in[i] = static_cast<float>(in_numbers[i]);
    weight[i] = static_cast<float>(weight_numbers[i]);
  }
  for (int i = 0; i < 1000; ++i) {
    check_convolution();
    check_linear();
    check_max_pool();
    check_relu();
  }
  check_refused_linear();
  HostReport report = {};
  report.pass = failures == 0 ? kHostReportPass : 0;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(failures == 0 ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return failures == 0 ? kExitPass : kExitMismatch;
}
