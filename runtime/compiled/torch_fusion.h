#ifndef TORCH_FUSION_H
#define TORCH_FUSION_H

/* What models that were compiled to C++ share: error codes and the hook of layers. */

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

/** Where a model may lie in memory. One that an NPU computes is whole lines of the core's data
 * cache, and needs as much as its type does: alignof. */
#define TORCH_FUSION_ALIGNMENT 16

/**
 * With -DTORCH_FUSION_LAYER_HOOK=FUNCTION models call, before each of their layers and after the
 * last one, `void FUNCTION(const void* model, int layer, const char* name)`, name being the
 * module's in PyTorch, null after the last one. Without it there is no code for that.
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

#endif
