// Runs each model of a package on its example: ends with 0 if all compute what PyTorch does.
#include "generated.h"

#define SELFTEST(model)
#include "models.h"
#undef SELFTEST

// The compiler tells the float ABI by this (ACLE, section "Floating-point and vector hardware").
#if defined(FLOAT_ABI_hard) && !defined(__ARM_PCS_VFP)
#error "not hard"
#elif defined(FLOAT_ABI_softfp) && (defined(__ARM_PCS_VFP) || !__ARM_FP)
#error "not softfp"
#elif defined(FLOAT_ABI_soft) && __ARM_FP
#error "not soft"
#endif

#ifdef LIBSTDCXX
int library_selftest(void);
#endif

#define SELFTEST(model) static model##_model_t model;
#include "models.h"
#undef SELFTEST

int main(void) {
  int failed = !GENERATED;
#define SELFTEST(model) failed |= model##_selftest(&model);
#include "models.h"
#ifdef LIBSTDCXX
  failed |= library_selftest();
#endif
  return failed != 0;
}
