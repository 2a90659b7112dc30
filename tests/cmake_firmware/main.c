// Runs each model of a package on its example: ends with 0 if all compute what PyTorch does.
#define SELFTEST(model)
#include "models.h"
#undef SELFTEST

#define SELFTEST(model) static model##_model_t model;
#include "models.h"
#undef SELFTEST

int main(void) {
  int failed = 0;
#define SELFTEST(model) failed |= model##_selftest(&model);
#include "models.h"
  return failed != 0;
}
