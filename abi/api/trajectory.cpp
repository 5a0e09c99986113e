#include "handles.h"

#include "decode/trajectory/extract_file.h"
#include "dllm/trajectory.h"

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_dataset_extract_trajectories(dllm_dataset* data, dllm_model* model,
                                              const char* path, const dllm_options* opts,
                                              dllm_task* task, int64_t* out_rows, dllm_error* err) {
  return guard(err, [&] {
    need_out(out_rows, "out_rows");
    const text::Dataset& rows = *need(data, "data").object;
    const dllm_model* teacher = optional(model, "model");
    *out_rows = decode::extract_trajectories(rows, teacher == nullptr ? nullptr : teacher->object,
                                             need_text(path, "path"),
                                             options_of(opts, "trajectories"), task_of(task));
  });
}
