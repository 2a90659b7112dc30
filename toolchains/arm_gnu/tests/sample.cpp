#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

// A float argument and result: passed in FPU registers if the calling convention is the hard one.
float scaled_root(float value) {
  return 1000.0F * std::sqrt(value);
}

float sum(const float* values, int count) {
  float total = 0.0F;
  for (int i = 0; i < count; ++i) {
    total += values[i];
  }
  return total;
}

int main() {
  std::array<float, 3> values{3.0F, 1.0F, 2.0F};
  std::sort(values.begin(), values.end());
  char text[64];
  return std::snprintf(
      text,
      sizeof(text),
      "%d %s %s",
      static_cast<int>(scaled_root(sum(values.data(), 3))),
      __FILE__,
      __DATE__);
}
