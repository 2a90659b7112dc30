#ifndef TORCH_FUSION_H
#define TORCH_FUSION_H

/* What models that were compiled to C++ share: error codes, numbers of quantized inputs and
 * outputs, where weights lie, and the hook of layers. */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a call of a model ended. The numbers are those of ExecuTorch's executorch::runtime::Error.
 */
typedef enum torch_fusion_status {
  TORCH_FUSION_OK = 0,
  /** An NPU stopped with an error: on the bus, in a command, of its watchdog or its memory. */
  TORCH_FUSION_INTERNAL = 0x01,
  /** The model has not been initialized; or an NPU did not end in time, and was reset. */
  TORCH_FUSION_INVALID_STATE = 0x02,
  /** An operator takes no such tensors: a program of dynamic shape, or one that indexes. */
  TORCH_FUSION_NOT_SUPPORTED = 0x10,
  /** No such input or output, or one of another size; or an operator refused a value. */
  TORCH_FUSION_INVALID_ARGUMENT = 0x12,
  /** The program computed a number of another kind than an operator takes. */
  TORCH_FUSION_INVALID_TYPE = 0x13,
  /** The memory is null, smaller than the model, or not aligned as it needs. */
  TORCH_FUSION_MEMORY_TOO_SMALL = 0x21,
  /** An NPU does not come out of reset, or not in the security state and privilege that it needs.
   */
  TORCH_FUSION_ACCESS_FAILED = 0x22,
  /** A loop of the program does not end. */
  TORCH_FUSION_INVALID_PROGRAM = 0x23,
  /** The model was compiled for another NPU than there is. */
  TORCH_FUSION_DELEGATE_INVALID_COMPATIBILITY = 0x30,
} torch_fusion_status;

/** What a status is, for a console. There is no code for it in an application that does not call
 * it. */
static inline const char* torch_fusion_status_text(torch_fusion_status status) {
  switch (status) {
    case TORCH_FUSION_OK:
      return "OK";
    case TORCH_FUSION_INTERNAL:
      return "the NPU stopped with an error";
    case TORCH_FUSION_INVALID_STATE:
      return "the model is not initialized, or the NPU did not end in time";
    case TORCH_FUSION_NOT_SUPPORTED:
      return "an operator takes no such tensors";
    case TORCH_FUSION_INVALID_ARGUMENT:
      return "no such input or output, another size, or a value that an operator refuses";
    case TORCH_FUSION_INVALID_TYPE:
      return "an operator takes no such kind of number";
    case TORCH_FUSION_MEMORY_TOO_SMALL:
      return "the memory is null, too small, or not aligned";
    case TORCH_FUSION_ACCESS_FAILED:
      return "the NPU does not come out of reset, or has not the rights that it needs";
    case TORCH_FUSION_INVALID_PROGRAM:
      return "a loop of the program does not end";
    case TORCH_FUSION_DELEGATE_INVALID_COMPATIBILITY:
      return "the model is compiled for another NPU";
  }
  return "no status of a model";
}

/** A conversion that compilers of C and of C++ have nothing to say to. */
#ifdef __cplusplus
#define TORCH_FUSION_CAST(type, value) static_cast<type>(value)
#else
#define TORCH_FUSION_CAST(type, value) ((type)(value))
#endif

/**
 * Returns the element of a quantized tensor that represents a number, as PyTorch computes it: the
 * nearest one, with halves rounded to even; the minimum for NaN. A model's header has a function
 * for each of its inputs that calls this one.
 */
static inline int32_t torch_fusion_quantize(
    float number,
    float inverse_scale,
    int32_t zero_point,
    int32_t least,
    int32_t greatest) {
  const float scaled = number * inverse_scale;
  int32_t whole = 0;
  float rest = 0.0f;
  if (!(scaled > TORCH_FUSION_CAST(float, least - zero_point))) {
    return least;
  }
  if (scaled > TORCH_FUSION_CAST(float, greatest - zero_point)) {
    return greatest;
  }
  whole = TORCH_FUSION_CAST(int32_t, scaled);
  rest = scaled - TORCH_FUSION_CAST(float, whole);
  if (whole % 2 != 0) {
    whole += rest >= 0.5f ? 1 : rest <= -0.5f ? -1 : 0;
  } else {
    whole += rest > 0.5f ? 1 : rest < -0.5f ? -1 : 0;
  }
  return whole + zero_point;
}

/** The number that an element of a quantized tensor stands for. */
static inline float torch_fusion_dequantize(int32_t element, float scale, int32_t zero_point) {
  return TORCH_FUSION_CAST(float, element - zero_point) * scale;
}

/**
 * With -DTORCH_FUSION_CHECKED for the model's source, calls that its header excludes give an error:
 * one before the initialization gets no address and no size, one while an inference runs (in an
 * interrupt, in the hook below) gets TORCH_FUSION_INVALID_STATE, and data that lies in the instance
 * TORCH_FUSION_INVALID_ARGUMENT. Without it there is no code for that.
 */
#ifdef TORCH_FUSION_CHECKED
#define TORCH_FUSION_EXCLUDED(condition) (condition)
#else
#define TORCH_FUSION_EXCLUDED(condition) 0
#endif

/**
 * What stands before the definition of each of a model's weights: with
 * -DTORCH_FUSION_WEIGHTS='__attribute__((section(".ospi")))' for the model's source they lie where
 * the linker script has that section, such as external flash. Those that several methods of a
 * program have stay where constants are.
 */
#ifndef TORCH_FUSION_WEIGHTS
#define TORCH_FUSION_WEIGHTS
#endif

/** Where a model may lie in memory. One that an NPU computes is whole lines of the core's data
 * cache, and needs as much as its type does: alignof. */
#define TORCH_FUSION_ALIGNMENT 16

/**
 * With -DTORCH_FUSION_LAYER_HOOK=FUNCTION models call, before each of their layers and after the
 * last one, `void FUNCTION(const void* model, int layer, const char* name)`, name being the
 * module's in PyTorch, null after the last one. Layers that are computed alternately, some rows of
 * each, have their calls before the first of them. Without it there is no code for that.
 */
#ifdef TORCH_FUSION_LAYER_HOOK
void TORCH_FUSION_LAYER_HOOK(const void* model, int layer, const char* name);
#define TORCH_FUSION_LAYER(model, layer, name) TORCH_FUSION_LAYER_HOOK((model), (layer), (name))
#else
#define TORCH_FUSION_LAYER(model, layer, name) ((void)0)
#endif

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(TORCH_FUSION_CHECKED)
/** An instance is not ready for other calls as long as one of these is there. */
struct torch_fusion_running {
  explicit torch_fusion_running(uint32_t& ready_) : ready(ready_), value(ready_) {
    ready = 0;
  }
  ~torch_fusion_running() {
    ready = value;
  }
  uint32_t& ready;
  const uint32_t value;
};
#define TORCH_FUSION_RUNNING(model) const torch_fusion_running running((model)->ready)
#else
#define TORCH_FUSION_RUNNING(model) ((void)0)
#endif

#endif
