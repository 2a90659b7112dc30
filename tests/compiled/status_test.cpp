/// Tests that statuses of the C interface are the runtime's errors, as generated code casts one to
/// the other, and tests its functions.

#include <cmath>
#include <cstring>
#include <initializer_list>

#include <executorch/runtime/core/error.h>

#include "torch_fusion.h"

using executorch::runtime::Error;

namespace {

constexpr bool is(torch_fusion_status status, Error error) {
  return static_cast<unsigned>(status) == static_cast<unsigned>(error);
}

static_assert(is(TORCH_FUSION_OK, Error::Ok), "");
static_assert(is(TORCH_FUSION_INTERNAL, Error::Internal), "");
static_assert(is(TORCH_FUSION_INVALID_STATE, Error::InvalidState), "");
static_assert(is(TORCH_FUSION_NOT_SUPPORTED, Error::NotSupported), "");
static_assert(is(TORCH_FUSION_INVALID_ARGUMENT, Error::InvalidArgument), "");
static_assert(is(TORCH_FUSION_INVALID_TYPE, Error::InvalidType), "");
static_assert(is(TORCH_FUSION_MEMORY_TOO_SMALL, Error::MemoryAllocationFailed), "");
static_assert(is(TORCH_FUSION_ACCESS_FAILED, Error::AccessFailed), "");
static_assert(is(TORCH_FUSION_INVALID_PROGRAM, Error::InvalidProgram), "");
static_assert(
    is(TORCH_FUSION_DELEGATE_INVALID_COMPATIBILITY, Error::DelegateInvalidCompatibility),
    "");

/// This rounds as PyTorch's quantize_per_tensor: the C library's nearbyint() takes the even one of
/// two that are as near.
int32_t quantized(float number, float inverse, int32_t zero_point) {
  const float element = std::nearbyint(number * inverse) + static_cast<float>(zero_point);
  return static_cast<int32_t>(std::fmin(std::fmax(element, -128.0f), 127.0f));
}

bool quantizes_as_pytorch() {
  for (int32_t zero_point = -128; zero_point <= 127; zero_point += 51) {
    for (int32_t i = -2000; i <= 2000; ++i) {
      // These are halves, and values beside and far outside of them.
      for (const float number :
           {static_cast<float>(i) * 0.5f,
            static_cast<float>(i) * 0.3717f,
            static_cast<float>(i) * 1e30f}) {
        for (const float inverse : {1.0f, 3.999f}) {
          if (torch_fusion_quantize(number, inverse, zero_point, -128, 127) !=
              quantized(number, inverse, zero_point)) {
            return false;
          }
        }
      }
    }
  }
  return torch_fusion_quantize(NAN, 1.0f, 0, -128, 127) == -128;
}

} // namespace

int main() {
  const bool texts = std::strcmp(torch_fusion_status_text(TORCH_FUSION_OK), "OK") == 0 &&
      std::strstr(torch_fusion_status_text(TORCH_FUSION_MEMORY_TOO_SMALL), "too small") !=
          nullptr &&
      torch_fusion_status_text(static_cast<torch_fusion_status>(0x11)) != nullptr;
  const bool numbers = quantizes_as_pytorch() && torch_fusion_dequantize(-3, 0.25f, 5) == -2.0f;
  return texts && numbers ? 0 : 1;
}
