/// A model called `exp`, where the function is declared, too.

#include <math.h>

#include <cmath>
#include <cstdio>

#include "exp.hpp"

int main() {
  static exp_model::Model model;
  model.init();
  model.input0()[0] = 0.5f;
  // It computes a sine.
  if (model.run() != TORCH_FUSION_OK || std::fabs(model.output0()[0] - std::sin(0.5f)) > 0.05f) {
    std::printf("not so: %f\n", static_cast<double>(model.output0()[0]));
    return 1;
  }
  // The function is still that.
  return exp(0.0) == 1.0 ? 0 : 1;
}
