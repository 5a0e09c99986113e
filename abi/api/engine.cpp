// Implements dllm/engine.h. Only this file names the classes of all engines.

#include "handles.h"

#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/model_place.h"
#include "cpu/engine.h"
#include "decode/method/setup.h"
#include "pjrt/engine.h"
#include "train/plan.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

namespace {

// Returns the job that option `what` names.
model::Job planned_job(const std::shared_ptr<graph::Engine>& engine,
                       const model::PlannedFiles& files, const Options& options) {
  const std::string& what = options.str("what");
  if (what == "train") return train::training_job(engine, files.config, options, files.in_files);
  if (what == "forward") return model::forward_job(engine, files.config, options, files.in_files);
  return decode::decoding_job(engine, files.config, options, files.in_files);
}

} // namespace

dllm_status dllm_engine_new(const dllm_options* opts, dllm_engine** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const Options options = options_of(opts, "engine");
    const bool plugin = options.str("kind") == "pjrt";
    *out = new dllm_engine(plugin ? pjrt::make_engine(options) : cpu::make_engine(options));
  });
}

void dllm_engine_release(dllm_engine* engine) {
  release(engine);
}

int64_t dllm_engine_device_count(const dllm_engine* engine) {
  const Held held(engine);
  return held ? static_cast<int64_t>(held->device_names.size()) : 0;
}

const char* dllm_engine_device_name(const dllm_engine* engine, int64_t index) {
  const Held held(engine);
  if (!held || index < 0 || index >= static_cast<int64_t>(held->device_names.size()))
    return nullptr;
  return held->device_names[static_cast<size_t>(index)].c_str();
}

dllm_status dllm_engine_describe(const dllm_engine* engine, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(engine, "engine").object->describe()); });
}

dllm_status dllm_engine_set_i64(dllm_engine* engine, const char* key, int64_t value,
                                dllm_error* err) {
  return guard(err, [&] { need(engine, "engine").object->set_i64(need_text(key, "key"), value); });
}

dllm_status dllm_engine_i64(const dllm_engine* engine, const char* key, int64_t* out,
                            dllm_error* err) {
  return guard(err, [&] {
    const int64_t value = need(engine, "engine").object->i64(need_text(key, "key"));
    need_out(out, "out") = value;
  });
}

dllm_status dllm_engine_plan(dllm_engine* engine, const char* path, const dllm_options* opts,
                             dllm_task* task, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    const std::shared_ptr<graph::Engine>& object = need(engine, "engine").object;
    need(out, "out");
    const Options options = options_of(opts, "plan");
    const FileTask own(task);
    const auto source = ckpt::open_model_source(ckpt::model_folder(need_place(path)));
    const model::PlannedFiles files = model::planned_files(*source, options);
    model::Job job = planned_job(object, files, options);
    job.attention = model::attention_name(files.config.attention);
    check_task(own.get());
    fill(out, model::plan_text(*object, job, options));
  });
}

dllm_status dllm_engine_trim(dllm_engine* engine, dllm_error* err) {
  return guard(err, [&] { need(engine, "engine").object->trim(); });
}
