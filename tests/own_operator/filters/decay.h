#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the rest of a value after a step.
float decay(float value, float rate);

#ifdef __cplusplus
}
#endif
