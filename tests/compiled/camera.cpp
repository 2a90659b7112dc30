/// Runs a model with memory = "stream_rows" on each sample that the host sends. A camera makes the
/// rows one at a time, and expects that the model asks for them in order.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"
#include "model_program.h"
#include "streamed_mobile.h"

namespace {

streamed_mobile_model_t model;
bool pass = true;

void expect(bool holds, const char* what) {
  if (!holds) {
    console_text("FAIL: ");
    console_text(what);
    console_text("\n");
    pass = false;
  }
}

/// Has a row as the inverted bits of its scene.
struct Camera {
  const uint8_t* scene;
  size_t rows;
  size_t breaks_at;
};

constexpr size_t kImageSize = model_program::kInputs[0].nbytes;
constexpr size_t kRowSize = STREAMED_MOBILE_ROW_SIZE;
constexpr size_t kHeight = kImageSize / kRowSize;

torch_fusion_status next_row(void* given, size_t row, void* elements) {
  auto& camera = *static_cast<Camera*>(given);
  if (row == camera.breaks_at) {
    return TORCH_FUSION_ACCESS_FAILED;
  }
  expect(row == camera.rows++, "the order of the rows");
  for (size_t i = 0; i < kRowSize; ++i) {
    static_cast<uint8_t*>(elements)[i] = ~camera.scene[row * kRowSize + i];
  }
  return TORCH_FUSION_OK;
}

} // namespace

int main() {
  host_open();
  host_arena_paint(model.arena, sizeof(model.arena));
  static uint8_t scene[kImageSize];
  expect(streamed_mobile_init(&model, sizeof(model)) == TORCH_FUSION_OK, "init");
  expect(streamed_mobile_run(&model) == TORCH_FUSION_INVALID_STATE, "run without rows");
  expect(streamed_mobile_input(&model, 0) == nullptr, "no image is in the instance");
  HostReport report = {};
  while (const void* const sample = host_read(model_program::kInputsSize)) {
    for (size_t i = 0; i < kImageSize; ++i) {
      scene[i] = ~static_cast<const uint8_t*>(sample)[i];
    }
    Camera camera = {scene, 0, kHeight / 2};
    expect(streamed_mobile_set_rows(&model, next_row, &camera) == TORCH_FUSION_OK, "set_rows");
    expect(streamed_mobile_run(&model) == TORCH_FUSION_ACCESS_FAILED, "a camera that breaks");
    camera = {scene, 0, kHeight};
    expect(streamed_mobile_run(&model) == TORCH_FUSION_OK, "run");
    expect(camera.rows == kHeight, "all rows");
    for (size_t i = 0; i < model_program::kNumOutputs; ++i) {
      host_write(streamed_mobile_output(&model, i), streamed_mobile_output_size(&model, i));
    }
    ++report.samples;
  }
  report.pass = pass ? kHostReportPass : 0;
  report.method_used = model_program::kMethodArenaSize;
  report.planned_used = host_arena_used(model.arena, model_program::kPlannedArenaSize);
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text(pass ? "\nPASS\n" : "\nFAIL\n");
  host_close(&report);
  return pass ? kExitPass : kExitMismatch;
}
