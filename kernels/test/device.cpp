/// The inner functions that have code of their own on a Cortex-M, against plain loops on integers:
/// the inputs are small whole numbers, so that floats give exactly the same. Writes next to the
/// outputs count as failures.

#include <cstddef>
#include <cstdint>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"
#include "kernels/portable/convolution.h"
#include "kernels/portable/gemm.h"
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

int32_t outputs(int32_t size, int32_t kernel, int32_t stride, int32_t padding, int32_t dilation) {
  const int32_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void check_convolution() {
  ConvolutionShape shape;
  shape.batch = draw(1, 2);
  shape.groups = draw(1, 3);
  shape.in_channels = draw(1, 4);
  shape.out_channels = draw(1, 9);
  shape.in_height = draw(1, 9);
  shape.in_width = draw(1, 9);
  shape.kernel_height = draw(1, 4);
  shape.kernel_width = draw(1, 4);
  shape.stride_height = draw(1, 3);
  shape.stride_width = draw(1, 3);
  shape.padding_height = draw(0, 3);
  shape.padding_width = draw(0, 3);
  shape.dilation_height = draw(1, 3);
  shape.dilation_width = draw(1, 3);
  shape.out_height = outputs(
      shape.in_height,
      shape.kernel_height,
      shape.stride_height,
      shape.padding_height,
      shape.dilation_height);
  shape.out_width = outputs(
      shape.in_width,
      shape.kernel_width,
      shape.stride_width,
      shape.padding_width,
      shape.dilation_width);
  const int32_t count =
      shape.batch * shape.groups * shape.out_channels * shape.out_height * shape.out_width;
  if (count == 0 || count + 2 > kSize) {
    return;
  }
  const bool has_bias = draw(0, 1) != 0;
  clear_out();
  torch::executor::native::convolution(in, weight, has_bias ? in : nullptr, out, shape);
  torch::executor::native::convolution<int32_t>(
      in_numbers, weight_numbers, has_bias ? in_numbers : nullptr, expected, shape);
  expect_out(count, "convolution");
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
    check_relu();
  }
  HostReport report = {};
  report.pass = failures == 0 ? kHostReportPass : 0;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(failures == 0 ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return failures == 0 ? kExitPass : kExitMismatch;
}
