#pragma once

#include <cstddef>

#include "torch_fusion.h"

/// A model of many that conformance/compiled.py has written into one source, behind its C
/// interface.
struct CompiledCase {
  unsigned number;
  size_t size;
  torch_fusion_status (*init)(void* model, size_t size);
  torch_fusion_status (*set_input)(void* model, size_t index, const void* data, size_t size);
  torch_fusion_status (*run)(void* model);
  const void* (*output)(const void* model, size_t index);
  size_t (*output_size)(const void* model, size_t index);
};

/// The models of one source.
struct CompiledCases {
  const CompiledCase* cases;
  size_t count;
};

#define COMPILED_CASE(number)                                                                     \
  {                                                                                               \
      number,                                                                                     \
      sizeof(case_##number##_model_t),                                                            \
      [](void* model, size_t size) {                                                              \
        return case_##number##_init(static_cast<case_##number##_model_t*>(model), size);          \
      },                                                                                          \
      [](void* model, size_t index, const void* data, size_t size) {                              \
        return case_##number##_set_input(                                                         \
            static_cast<case_##number##_model_t*>(model), index, data, size);                     \
      },                                                                                          \
      [](void* model) {                                                                           \
        return case_##number##_run(static_cast<case_##number##_model_t*>(model));                 \
      },                                                                                          \
      [](const void* model, size_t index) {                                                       \
        return case_##number##_output(static_cast<const case_##number##_model_t*>(model), index); \
      },                                                                                          \
      [](const void* model, size_t index) {                                                       \
        return case_##number##_output_size(                                                       \
            static_cast<const case_##number##_model_t*>(model), index);                           \
      },                                                                                          \
  }
