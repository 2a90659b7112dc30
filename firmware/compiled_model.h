#pragma once

#include <stddef.h>
#include <stdint.h>

#include "firmware/program.h"
#include "torch_fusion.h"

namespace torch_fusion {

/// One of several models of an image that were compiled to C++, behind its C interface: NAME.h says
/// what the functions do. An instance is `size` bytes, aligned to kArenaAlignment of
/// shared_arenas.h, which begin with its arena.
struct CompiledModel {
  Program program;
  size_t size;
  size_t arena_size;
  uint32_t method_arena_size;
  uint32_t planned_arena_size;
  uint32_t temp_arena_size;
  torch_fusion_status (*init)(void* model, size_t size);
  torch_fusion_status (*run)(void* model);
  torch_fusion_status (*set_input)(void* model, size_t index, const void* data, size_t size);
  const void* (*output)(const void* model, size_t index);
  size_t (*output_size)(const void* model, size_t index);
  const int32_t* (*output_shape)(const void* model, size_t index);
};

} // namespace torch_fusion

/// Defines the torch_fusion::CompiledModel of the model NAME.
#define TORCH_FUSION_COMPILED_MODEL(NAME)                                                \
  {                                                                                      \
      TORCH_FUSION_PROGRAM(NAME##_pte),                                                  \
      sizeof(NAME##_model_t),                                                            \
      sizeof(NAME##_model_t::arena),                                                     \
      NAME##_pte::kMethodArenaSize,                                                      \
      NAME##_pte::kPlannedArenaSize,                                                     \
      NAME##_pte::kTempArenaSize,                                                        \
      [](void* model, size_t size) {                                                     \
        return NAME##_init(static_cast<NAME##_model_t*>(model), size);                   \
      },                                                                                 \
      [](void* model) { return NAME##_run(static_cast<NAME##_model_t*>(model)); },       \
      [](void* model, size_t index, const void* data, size_t size) {                     \
        return NAME##_set_input(static_cast<NAME##_model_t*>(model), index, data, size); \
      },                                                                                 \
      [](const void* model, size_t index) {                                              \
        return NAME##_output(static_cast<const NAME##_model_t*>(model), index);          \
      },                                                                                 \
      [](const void* model, size_t index) {                                              \
        return NAME##_output_size(static_cast<const NAME##_model_t*>(model), index);     \
      },                                                                                 \
      [](const void* model, size_t index) {                                              \
        return NAME##_output_shape(static_cast<const NAME##_model_t*>(model), index);    \
      },                                                                                 \
  }
