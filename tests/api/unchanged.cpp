// A call that fails changes nothing: the model's description and every weight, the canvases, the
// trainer and the loader are what they were. One row of the table for each call and way to fail.

#include "world.h"

#include <functional>
#include <string>
#include <vector>

namespace {

struct Subject {
  world* w;
  dllm_trainer* trainer;
  dllm_decoder* decoder;
  dllm_loader* loader;
};

using Describe = std::function<dllm_status(dllm_buffer*, dllm_error*)>;

std::string text_of(const Describe& describe, dllm_error* err) {
  dllm_buffer* buffer = dllm_buffer_new();
  NEED(describe(buffer, err), err);
  std::string text(static_cast<const char*>(dllm_buffer_data(buffer)));
  dllm_buffer_release(buffer);
  return text;
}

// FNV-1a of the bytes of all weights.
uint64_t weights_of(const dllm_model* model, dllm_error* err) {
  uint64_t hash = 14695981039346656037u;
  for (int64_t i = 0; i < dllm_model_param_count(model); ++i) {
    dllm_tensor* tensor = nullptr;
    NEED(dllm_model_param(model, dllm_model_param_name(model, i), &tensor, err), err);
    int64_t count = 1;
    for (int64_t d = 0; d < dllm_tensor_rank(tensor); ++d) count *= dllm_tensor_dim(tensor, d);
    std::vector<float> values(static_cast<size_t>(count));
    NEED(dllm_tensor_read(tensor, DLLM_F32, values.data(), count * 4, err), err);
    dllm_tensor_release(tensor);
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (size_t b = 0; b < values.size() * 4; ++b) hash = (hash ^ bytes[b]) * 1099511628211u;
  }
  return hash;
}

std::string state_of(const Subject& s) {
  dllm_error* err = s.w->err;
  std::string state = text_of(
      [&](dllm_buffer* out, dllm_error* e) { return dllm_model_describe(s.w->model, out, e); },
      err);
  state += std::to_string(weights_of(s.w->model, err));
  state += text_of(
      [&](dllm_buffer* out, dllm_error* e) { return dllm_trainer_describe(s.trainer, out, e); },
      err);
  state += text_of(
      [&](dllm_buffer* out, dllm_error* e) { return dllm_decoder_describe(s.decoder, out, e); },
      err);
  for (int64_t slot = 0; slot < 2; ++slot) {
    int32_t ids[64];
    int64_t count = 0;
    NEED(dllm_decoder_ids(s.decoder, slot, ids, 64, &count, err), err);
    for (int64_t i = 0; i < count; ++i) state += " " + std::to_string(ids[i]);
  }
  return state + " at " + std::to_string(dllm_loader_position(s.loader));
}

struct Row {
  const char* what;
  std::function<dllm_status(const Subject&, dllm_error*)> call;
};

// A trainer of these options; released where it could be made after all.
Row new_trainer(const char* what, const char* json) {
  return {what, [json](const Subject& s, dllm_error* err) {
            dllm_options* opts = make_options("trainer", json, err);
            dllm_objective* objective = nullptr;
            NEED(dllm_objective_new("bd3lm", nullptr, nullptr, &objective, err), err);
            dllm_trainer* made = nullptr;
            const dllm_status status = dllm_trainer_new(s.w->model, objective, opts, &made, err);
            dllm_trainer_release(made);
            dllm_objective_release(objective);
            dllm_options_release(opts);
            return status;
          }};
}

// A step on a batch of one array more than ids.
Row step_with(const char* what, const char* name, int32_t dtype, int64_t rank, const void* data) {
  return {what, [=](const Subject& s, dllm_error* err) {
            dllm_batch* batch = nullptr;
            NEED(dllm_batch_new(&batch, err), err);
            const int32_t ids[4] = {1, 2, 3, 4};
            const int64_t dims[2] = {1, 4};
            NEED(dllm_batch_set(batch, "ids", DLLM_I32, dims, 2, ids, err), err);
            NEED(dllm_batch_set(batch, name, dtype, dims, rank, data, err), err);
            double loss = 0;
            const dllm_status status = dllm_trainer_step(s.trainer, batch, nullptr, &loss, err);
            dllm_batch_release(batch);
            return status;
          }};
}

std::vector<Row> table() {
  static const float kWeights[4] = {1, 1, 1, 1};
  static const int32_t kTargets[4] = {1, 2, 3, 1 << 20}, kTooLong[1] = {5};
  static const uint8_t kSample[4] = {1, 0, 0, 0};
  return {
      new_trainer("trainer_new, freeze without a match", R"({"freeze": ["nothing*"]})"),
      new_trainer("trainer_new, freeze that cuts, then one without a match",
                  R"({"freeze": ["*layers.0*", "nothing*"]})"),
      new_trainer("trainer_new, everything frozen", R"({"freeze": ["*"]})"),
      new_trainer("trainer_new, a group without a match", R"({"groups": ["nothing* lr=1"]})"),
      new_trainer("trainer_new, an option of another optimizer", R"({"momentum": 0.5})"),
      new_trainer("trainer_new, remat and memory", R"({"remat": true, "memory": 1000})"),
      step_with("trainer_step, weights without targets", "weights", DLLM_F32, 2, kWeights),
      step_with("trainer_step, targets without weights", "targets", DLLM_I32, 2, kTargets),
      step_with("trainer_step, an array that is not read", "sample", DLLM_U8, 2, kSample),
      step_with("trainer_step, a prompt longer than its row", "prompt_length", DLLM_I32, 1,
                kTooLong),
      {"trainer_apply, nothing accumulated",
       [](const Subject& s, dllm_error* err) {
         double loss = 0;
         return dllm_trainer_apply(s.trainer, nullptr, &loss, err);
       }},
      {"trainer_set_f64, below 0",
       [](const Subject& s, dllm_error* err) {
         return dllm_trainer_set_f64(s.trainer, "lr", -1, err);
       }},
      {"checkpoint_restore, no such folder",
       [](const Subject& s, dllm_error* err) {
         return dllm_checkpoint_restore(s.trainer, s.loader, "nowhere", nullptr, err);
       }},
      {"decoder_add, a token out of the vocabulary",
       [](const Subject& s, dllm_error* err) {
         const int32_t ids[2] = {1, 1 << 20};
         return dllm_decoder_add(s.decoder, ids, nullptr, 2, nullptr, nullptr, err);
       }},
      {"decoder_start, a token out of the vocabulary",
       [](const Subject& s, dllm_error* err) {
         const int32_t ids[1] = {-5};
         return dllm_decoder_start(s.decoder, ids, 1, 0, err);
       }},
      {"decoder_remove, no such slot",
       [](const Subject& s, dllm_error* err) { return dllm_decoder_remove(s.decoder, 9, err); }},
      {"decoder_step, cancelled",
       [](const Subject& s, dllm_error* err) {
         dllm_task* task = dllm_task_new();
         dllm_task_cancel(task);
         const dllm_status status = dllm_decoder_step(s.decoder, task, nullptr, err);
         dllm_task_release(task);
         return status;
       }},
      {"loader_seek, before the first",
       [](const Subject& s, dllm_error* err) { return dllm_loader_seek(s.loader, -1, err); }},
  };
}

} // namespace

int main() {
  world w;
  open_world(&w, 1);
  Subject s{&w, make_trainer(w.model, nullptr, w.err), nullptr,
            make_loader(w.data, R"({"batch": 2, "length": 8})", w.err)};
  dllm_options* opts = make_options("decoder", R"({"gen_length": 6, "steps": 3})", w.err);
  NEED(dllm_decoder_new(w.model, opts, &s.decoder, w.err), w.err);
  dllm_options_release(opts);
  const int32_t prompt[2] = {1, 2};
  for (int i = 0; i < 2; ++i)
    NEED(dllm_decoder_add(s.decoder, prompt, nullptr, 2, nullptr, nullptr, w.err), w.err);
  NEED(dllm_decoder_step(s.decoder, nullptr, nullptr, w.err), w.err);
  const std::string before = state_of(s);
  for (const Row& row : table()) {
    const dllm_status status = row.call(s, w.err);
    const bool same = state_of(s) == before;
    check_line(status != DLLM_OK, (std::string(row.what) + " fails").c_str(), __FILE__, __LINE__);
    check_line(same, (std::string(row.what) + " changes nothing").c_str(), __FILE__, __LINE__);
  }
  dllm_decoder_release(s.decoder);
  dllm_trainer_release(s.trainer);
  dllm_loader_release(s.loader);
  close_world(&w);
  return failures == 0 ? 0 : 1;
}
