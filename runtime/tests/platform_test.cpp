// Tests the replacements of the C library's stdio, platform hooks and names.

#include <cinttypes>
#include <cstring>
#include <string>
#include <vector>

#include <executorch/runtime/core/exec_aten/util/tensor_shape_to_c_string.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/core/tag.h>
#include <executorch/runtime/core/tensor_layout.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

// It follows ExecuTorch's headers, which leave these to their users.
#include <c10/util/complex.h>

#include <sstream>

#include "runtime/platform/format.h"
#include "runtime/tests/check.h"

namespace torch_fusion::testing {
namespace {

using namespace executorch::runtime;
using executorch::aten::ScalarType;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

template <typename... Args>
void check_format(const char* expected, const char* format, Args... args) {
  char text[64];
  const size_t length = internal::format(text, sizeof(text), format, args...);
  CHECK(std::string(text) == expected, "\"%s\", expected \"%s\"", text, expected);
  CHECK(length == std::strlen(text));
}

void test_format() {
  check_format("plain", "plain");
  check_format("-5 5 4294967291", "%d %i %u", -5, 5, -5);
  check_format("-2147483648 9223372036854775807", "%d %" PRId64, INT32_MIN, INT64_MAX);
  check_format("-9223372036854775808", "%lld", static_cast<long long>(INT64_MIN));
  check_format("18446744073709551615 7", "%zu %zd", SIZE_MAX, static_cast<ssize_t>(7));
  check_format("ff FF 0x1f", "%x %X %p", 255, 255, reinterpret_cast<void*>(0x1f));
  check_format("   42|42   |00042", "%5d|%-5d|%05d", 42, 42, 42);
  check_format("-1 -2", "%hhd %hd", -1, -2);
  check_format("text|te|tex", "%s|%.2s|%.*s", "text", "text", 3, "text");
  const char* volatile null = nullptr;
  check_format("(null)", "%s", static_cast<const char*>(null));
  check_format("c 100%", "%c 100%%", 'c');
  check_format("%f 3", "%f %d", 1.5, 3);
  check_format("%", "%");
  char small[4];
  CHECK(
      internal::format(small, sizeof(small), "%d", 123456) == 3 && std::strcmp(small, "123") == 0);
}

#pragma GCC diagnostic pop

void test_names() {
  char text[kTagNameBufferSize];
  CHECK(
      tag_to_string(Tag::ListOptionalTensor, text, sizeof(text)) == 18 &&
      std::string(text) == "ListOptionalTensor");
  const int32_t shape[] = {2, 3};
  CHECK(std::string(tensor_shape_to_c_string({shape, 2}).data()) == "(2, 3)");
  CHECK(std::string(tensor_shape_to_c_string(Span<const int32_t>()).data()) == "()");
  const int64_t large[] = {int64_t{1} << 40};
  CHECK(std::string(tensor_shape_to_c_string({large, 1}).data()) == "(ERR)");
}

void test_tensor_layout() {
  const int32_t sizes[] = {2, 3};
  const uint8_t dim_order[] = {0, 1};
  CHECK(TensorLayout::create({sizes, 2}, {dim_order, 2}, ScalarType::Float)->nbytes() == 24);
  CHECK_ERROR(
      TensorLayout::create({sizes, 2}, {dim_order, 1}, ScalarType::Float).error(),
      Error::InvalidArgument);
  const int32_t negative[] = {-2, 3};
  CHECK_ERROR(
      TensorLayout::create({negative, 2}, {dim_order, 2}, ScalarType::Float).error(),
      Error::InvalidArgument);
}

void test_resize() {
  using executorch::aten::Tensor;
  using executorch::aten::TensorImpl;
  using executorch::aten::TensorShapeDynamism;
  constexpr auto kBounded = TensorShapeDynamism::DYNAMIC_BOUND;
  int32_t sizes[] = {2, 3};
  uint8_t dim_order[] = {0, 1};
  int32_t strides[] = {3, 1};
  float data[6] = {};
  TensorImpl impl(ScalarType::Float, 2, sizes, data, dim_order, strides, kBounded);
  const auto resize = [](TensorImpl& to, const std::vector<int32_t>& wanted) {
    return resize_tensor(Tensor(&to), ArrayRef<int32_t>(wanted.data(), wanted.size()));
  };
  CHECK_ERROR(resize(impl, {3, 2}), Error::Ok);
  CHECK(impl.numel() == 6 && sizes[0] == 3 && sizes[1] == 2 && strides[0] == 2);
  const std::vector<int32_t> refused[] = {
      {6}, {3, 2, 1}, {1, 7}, {-1, 2}, {65536, 65536}, {0, INT32_MAX}};
  for (const std::vector<int32_t>& wanted : refused) {
    CHECK_ERROR(resize(impl, wanted), Error::NotSupported);
    CHECK(impl.numel() == 6 && sizes[0] == 3 && sizes[1] == 2 && strides[0] == 2);
  }

  TensorImpl fixed(ScalarType::Float, 2, sizes, data, dim_order, strides);
  CHECK_ERROR(resize(fixed, {3, 2}), Error::Ok);
  CHECK_ERROR(resize(fixed, {3, 1}), Error::NotSupported);
  TensorImpl without_strides(ScalarType::Float, 2, sizes, data, dim_order, nullptr, kBounded);
  CHECK_ERROR(resize(without_strides, {3, 1}), Error::Internal);
  TensorImpl without_order(ScalarType::Float, 2, sizes, data, nullptr, strides, kBounded);
  CHECK_ERROR(resize(without_order, {3, 1}), Error::Internal);
  CHECK(sizes[0] == 3 && sizes[1] == 2);
}

int calls = 0;

et_timestamp_t ticks() {
  ++calls;
  return 42;
}

void test_pal() {
  runtime_init();
  CHECK(pal_current_ticks() == 0 && pal_allocate(8) == nullptr);
  PalImpl impl{};
  impl.current_ticks = ticks;
  CHECK(register_pal(impl));
  CHECK(pal_current_ticks() == 42 && calls == 1);
  CHECK(!register_pal(impl));
  CHECK(get_pal_impl()->current_ticks == ticks);
  pal_free(nullptr);
  CHECK(pal_ticks_to_ns_multiplier().denominator == 1);
}

void fallback(KernelRuntimeContext&, Span<EValue*>) {}
void for_floats(KernelRuntimeContext&, Span<EValue*>) {}

void test_registration() {
  using executorch::runtime::internal::make_kernel_key_string;
  const Kernel kernels[] = {
      Kernel("test::op.out", fallback),
      Kernel("test::op.out", "v1/6;0,1", for_floats),
  };
  CHECK(!registry_has_op_function("test::op.out"));
  CHECK_ERROR(register_kernels({kernels, 2}), Error::Ok);
  CHECK(get_registered_kernels().size() == 2);
  CHECK(*get_op_function_from_registry("test::op.out") == fallback);
  uint8_t dim_order[] = {0, 1};
  const TensorMeta floats[] = {TensorMeta(ScalarType::Float, {dim_order, 2})};
  CHECK(*get_op_function_from_registry("test::op.out", {floats, 1}) == for_floats);
  const TensorMeta ints[] = {TensorMeta(ScalarType::Int, {dim_order, 2})};
  CHECK(*get_op_function_from_registry("test::op.out", {ints, 1}) == fallback);
  CHECK_ERROR(get_op_function_from_registry("test::op").error(), Error::OperatorMissing);
  char key[32];
  const TensorMeta both[] = {floats[0], ints[0]};
  CHECK_ERROR(make_kernel_key_string({both, 2}, key, sizeof(key)), Error::Ok);
  CHECK(std::string(key) == "v1/6;0,1|3;0,1");
  CHECK_ERROR(make_kernel_key_string({both, 2}, key, 14), Error::InvalidArgument);
}

void test_streams_and_complex_numbers() {
  using Complex = executorch::aten::complex<float>;
  std::ostringstream text;
  text << executorch::aten::Half(1.5f) << ' ' << executorch::aten::BFloat16(-2.0f) << ' '
       << Complex(1.0f, 2.0f);
  CHECK(text.str() == "1.5 -2 (1,2)", "%s", text.str().c_str());
  CHECK(std::abs(Complex(3.0f, 4.0f)) == 5.0f);
}

} // namespace
} // namespace torch_fusion::testing

int main() {
  using namespace torch_fusion::testing;
  test_format();
  test_names();
  test_tensor_layout();
  test_resize();
  test_pal();
  test_registration();
  test_streams_and_complex_numbers();
  return 0;
}
