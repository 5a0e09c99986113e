#include "dllm/checkpoint.h"

#include "buffer_handle.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/weights_on_disk.h"
#include "loader_handle.h"
#include "options_handle.h"
#include "task_handle.h"
#include "tensor_handle.h"
#include "train/checkpoint.h"
#include "trainer_handle.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

struct dllm_checkpoint : Handle<Kind::checkpoint> {
  explicit dllm_checkpoint(const std::string& path) : object(path) {}
  ckpt::WeightsOnDisk object;
};

dllm_status dllm_checkpoint_save(dllm_trainer* trainer, const dllm_loader* loader, const char* root,
                                 const dllm_options* opts, dllm_task* task, dllm_buffer* out_dir, dllm_error* err) {
  return guard(err, [&] {
    const train::Trainer& object = need(trainer, "trainer").object;
    auto* from = const_cast<dllm_loader*>(optional(loader, "loader"));  // only its position is read
    std::optional<LoaderSource> source;
    if (from != nullptr) source.emplace(from->object);
    if (out_dir != nullptr) need(out_dir, "out_dir");
    std::string dir = train::save_checkpoint(object, source ? &*source : nullptr, need_text(root, "root"),
                                             options_of(opts, "checkpoint"), task_of(task));
    if (out_dir != nullptr) fill(out_dir, std::move(dir), "out_dir");
  });
}

dllm_status dllm_checkpoint_restore(dllm_trainer* trainer, dllm_loader* loader, const char* dir, dllm_task* task,
                                    dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need(trainer, "trainer").object;
    dllm_loader* to = optional(loader, "loader");
    std::optional<LoaderSource> source;
    if (to != nullptr) source.emplace(to->object);
    train::restore_checkpoint(object, source ? &*source : nullptr, need_text(dir, "dir"), task_of(task));
  });
}

dllm_status dllm_checkpoint_latest(const char* root, dllm_buffer* out_dir, dllm_error* err) {
  return guard(err, [&] {
    need(out_dir, "out_dir");
    const auto latest = ckpt::latest_checkpoint(need_text(root, "root"));
    if (!latest) fail(Code::not_found, "{} holds no whole checkpoint", root);
    fill(out_dir, latest->folder, "out_dir");
  });
}

dllm_status dllm_checkpoint_open(const char* path, dllm_checkpoint** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_checkpoint(need_text(path, "path"));
  });
}

void dllm_checkpoint_release(dllm_checkpoint* ckpt) {
  release(ckpt);
}

dllm_status dllm_checkpoint_describe(const dllm_checkpoint* ckpt, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill(out, need(ckpt, "ckpt").object.describe().dump()); });
}

dllm_status dllm_checkpoint_tensor(const dllm_checkpoint* ckpt, const char* name, dllm_tensor** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tensor(need(ckpt, "ckpt").object.tensor(need_text(name, "name")));
  });
}

dllm_status dllm_checkpoint_verify(const dllm_checkpoint* ckpt, dllm_task* task, dllm_error* err) {
  return guard(err, [&] { need(ckpt, "ckpt").object.verify(task_of(task)); });
}
