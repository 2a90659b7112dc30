// Uses C++'s library as an application does: memory that is allocated, containers, strings, and
// code that runs before main().
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

extern "C" {
int library_selftest(void);

/// GCC's own start-up code has these; the project's replaces it.
void* __dso_handle = nullptr;
}

namespace {

const std::vector<float> kSamples{0.5F, 1.5F, 2.5F};

/// The compiler can't know what it is.
volatile float quarter = 0.25F;

} // namespace

/// Returns 0 if the library computes what it should.
int library_selftest(void) {
  std::vector<float> doubled;
  for (const float sample : kSamples) {
    doubled.push_back(2 * sample);
  }
  const auto sum = std::make_unique<float>(std::accumulate(doubled.begin(), doubled.end(), 0.0F));
  const std::string text = std::string(20, 'x') + std::to_string(doubled.size());

  // Arguments and results in floating point are the library's, by its float ABI.
  const bool passes =
      std::strtof("0.25", nullptr) == quarter && std::fabs(std::cos(quarter) - 0.968912F) < 1e-5F;
  return passes && *sum == 9.0F && text == "xxxxxxxxxxxxxxxxxxxx3" ? 0 : 1;
}
