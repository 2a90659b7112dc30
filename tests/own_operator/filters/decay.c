#include "decay.h"

float decay(float value, float rate) {
  return value * (1.0f - rate);
}
