#include "dllm/checkpoint.h"

#include "ckpt/checkpoint/checkpoint_check.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/model_place.h"
#include "ckpt/weights_on_disk.h"
#include "handles.h"
#include "model/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_facts.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

struct dllm_checkpoint : Handle<Kind::checkpoint> {
  explicit dllm_checkpoint(const std::string& where) : path(where), object(where) {}
  std::string path;
  ckpt::WeightsOnDisk object;
};

namespace {

// Returns fields of the config next to the weights. Returns null without a config, and for a config
// that cannot be read.
Json config_of(const std::string& path) {
  try {
    const ckpt::ModelPlace place = ckpt::model_place(path);
    const model::ModelConfig config =
        place.use ? model::config_from_text(place.use->config, place.use->where)
                  : model::read_config(*ckpt::open_model_source(place.base));
    Json made{{"family", config.family},
              {"attention", model::attention_name(config.attention)},
              {"shift", config.shift},
              {"mask_token_id", config.mask_token_id},
              {"block_length", config.block_length},
              {"layers", config.layers},
              {"hidden", config.hidden_size},
              {"vocab", config.vocab_size},
              {"max_length", config.max_positions}};
    if (!config.objective.empty()) made["objective"] = config.objective;
    return made;
  } catch (const Error&) {
    return nullptr;
  }
}

} // namespace

dllm_status dllm_checkpoint_save(dllm_trainer* trainer, const dllm_loader* loader, const char* root,
                                 const dllm_options* opts, dllm_task* task, dllm_buffer* out_dir,
                                 dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need(trainer, "trainer").object;
    // A save reads only the position of the loader.
    auto* from = const_cast<dllm_loader*>(optional(loader, "loader"));
    std::optional<train::LoaderSource> source;
    if (from != nullptr) source.emplace(from->object);
    if (out_dir != nullptr) need(out_dir, "out_dir");
    std::string dir =
        train::save_checkpoint(object, source ? &*source : nullptr, need_text(root, "root"),
                               options_of(opts, "checkpoint"), task_of(task));
    if (out_dir != nullptr) fill(out_dir, std::move(dir), "out_dir");
  });
}

dllm_status dllm_checkpoint_restore(dllm_trainer* trainer, dllm_loader* loader, const char* dir,
                                    dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    dllm_loader* to = optional_own(loader, "loader");
    std::optional<train::LoaderSource> source;
    if (to != nullptr) source.emplace(to->object);
    train::restore_checkpoint(object, source ? &*source : nullptr, need_text(dir, "dir"),
                              task_of(task));
  });
}

dllm_status dllm_checkpoint_latest(const char* root, dllm_buffer* out_dir, dllm_error* err) {
  return dllm_checkpoint_latest_task(root, nullptr, out_dir, err);
}

dllm_status dllm_checkpoint_latest_task(const char* root, dllm_task* task, dllm_buffer* out_dir,
                                        dllm_error* err) {
  return guard(err, [&] {
    need(out_dir, "out_dir");
    const FileTask own(task);
    const auto latest = ckpt::latest_checkpoint(need_text(root, "root"));
    if (!latest) fail(Code::not_found, "{} holds no whole checkpoint", root);
    fill(out_dir, latest->folder, "out_dir");
  });
}

dllm_status dllm_checkpoint_open(const char* path, dllm_checkpoint** out, dllm_error* err) {
  return dllm_checkpoint_open_task(path, nullptr, out, err);
}

dllm_status dllm_checkpoint_open_task(const char* path, dllm_task* task, dllm_checkpoint** out,
                                      dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const FileTask own(task);
    *out = new dllm_checkpoint(need_place(path));
  });
}

void dllm_checkpoint_release(dllm_checkpoint* ckpt) {
  release(ckpt);
}

dllm_status dllm_checkpoint_describe(const dllm_checkpoint* ckpt, dllm_buffer* out,
                                     dllm_error* err) {
  return guard(err, [&] {
    const dllm_checkpoint& held = need(ckpt, "ckpt");
    Json about = held.object.describe();
    if (Json parts = train::describe_parts(held.path, about); !parts.empty())
      about["parts"] = std::move(parts);
    const Json tensors = std::move(about["tensors"]);
    about.erase("tensors");
    if (Json config = config_of(held.path); !config.is_null()) about["model"] = std::move(config);
    about["tensors"] = tensors;
    fill_json(out, about);
  });
}

dllm_status dllm_checkpoint_tensor(const dllm_checkpoint* ckpt, const char* name, dllm_tensor** out,
                                   dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tensor(need(ckpt, "ckpt").object.tensor(need_text(name, "name")));
  });
}

dllm_status dllm_checkpoint_verify(const dllm_checkpoint* ckpt, dllm_task* task, dllm_error* err) {
  return guard(err, [&] { need(ckpt, "ckpt").object.verify(task_of(task)); });
}

dllm_status dllm_checkpoint_check(const char* dir, dllm_task* task, dllm_buffer* out,
                                  dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    const FileTask own(task);
    const std::string folder = need_text(dir, "dir");
    fill_json(out, ckpt::to_json(ckpt::check_folder(folder, task_of(task))));
  });
}
