/* The model on the machine that builds: the application's own code can be tested there, too. */

#include <math.h>
#include <string.h>

#include "sine.h"

static sine_model_t model;

int main(void) {
  const float angle = 1.0f;
  float sine;
  if (sine_init(&model, sizeof(model)) != TORCH_FUSION_OK ||
      sine_set_input(&model, 0, &angle, sizeof(angle)) != TORCH_FUSION_OK ||
      sine_run(&model) != TORCH_FUSION_OK) {
    return 1;
  }
  memcpy(&sine, sine_output(&model, 0), sizeof(sine));
  return fabsf(sine - sinf(angle)) < 0.1f ? 0 : 1;
}
