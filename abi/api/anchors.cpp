#include "handles.h"

#include "dllm/anchors.h"
#include "train/anchors/anchor_writer.h"

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_loader_write_anchors(dllm_loader* loader, dllm_model* teacher, const char* path,
                                      const dllm_options* opts, dllm_task* task,
                                      int64_t* out_chunks, dllm_error* err) {
  return guard(err, [&] {
    need_out(out_chunks, "out_chunks");
    text::Loader& rows = need_own(loader, "loader").object;
    *out_chunks =
        train::write_anchor_cache(rows, need(teacher, "teacher").object, need_text(path, "path"),
                                  options_of(opts, "anchors"), task_of(task));
  });
}
