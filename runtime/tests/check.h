#pragma once

#include <cstdio>
#include <cstdlib>

#include <executorch/runtime/core/error.h>

/// Ends the test with a message if a condition does not hold.
#define CHECK(condition, ...)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s. ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, " " __VA_ARGS__);                                       \
      std::fprintf(stderr, "\n");                                                  \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

/// Ends the test if an expression of type Error differs from the expected one.
#define CHECK_ERROR(expression, expected)                           \
  do {                                                              \
    const ::executorch::runtime::Error actual_error = (expression); \
    if (actual_error != (expected)) {                               \
      std::fprintf(                                                 \
          stderr,                                                   \
          "%s:%d: %s is %s, expected %s\n",                         \
          __FILE__,                                                 \
          __LINE__,                                                 \
          #expression,                                              \
          ::executorch::runtime::to_string(actual_error),           \
          ::executorch::runtime::to_string(expected));              \
      std::exit(1);                                                 \
    }                                                               \
  } while (0)
