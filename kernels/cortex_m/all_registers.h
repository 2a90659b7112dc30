#pragma once

// Included where loops take all registers that the core has, of which Clang keeps some for itself.
#if defined(__clang__) && (defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_MVE))
#error \
    "int8 layers for cores with the DSP extension or MVE compile by GCC only: take a package in the form of archives"
#endif
