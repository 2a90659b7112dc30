/* The least application in C: the model is functions, model_program.h has them. It runs the example
   of the model file and prints the output. */

#include "firmware/board.h"
#include "firmware/console.h"
#include "firmware/host.h"
#include "model_program.h"

/* All the memory there is for the model. */
static sine_model_t model;

int main(void) {
  /* Here an application puts what its sensor measured. */
  if (sine_init(&model, sizeof(model)) != TORCH_FUSION_OK ||
      sine_set_input(&model, 0, sine_pte_example_input_0, SINE_INPUT_0_SIZE) != TORCH_FUSION_OK ||
      sine_run(&model) != TORCH_FUSION_OK) {
    return kExitError;
  }
  console_text("output: ");
  console_float(*(const float*)sine_output(&model, 0));
  console_text("\nPASS\n");
  return kExitPass;
}
