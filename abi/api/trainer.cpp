#include "handles.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_trainer_new(dllm_model* model, dllm_objective* objective, const dllm_options* opts,
                             dllm_trainer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(model, "model").object;
    const auto& what = need(objective, "objective").object;
    *out = new dllm_trainer(on, what, options_of(opts, "trainer"));
  });
}

void dllm_trainer_release(dllm_trainer* trainer) {
  release(trainer);
}

dllm_status dllm_trainer_step(dllm_trainer* trainer, const dllm_batch* batch, dllm_task* task,
                              double* out_loss, dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    const Batch& arrays = need(batch, "batch").object;
    if (out_loss == nullptr)
      object.start_step(arrays, task_of(task));
    else
      *out_loss = object.step(arrays, task_of(task));
  });
}

dllm_status dllm_trainer_accumulate(dllm_trainer* trainer, const dllm_batch* batch, dllm_task* task,
                                    dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    object.accumulate(need(batch, "batch").object, task_of(task));
  });
}

dllm_status dllm_trainer_apply(dllm_trainer* trainer, dllm_task* task, double* out_loss,
                               dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    if (out_loss == nullptr)
      object.start_apply(task_of(task));
    else
      *out_loss = object.apply(task_of(task));
  });
}

dllm_status dllm_trainer_sync(dllm_trainer* trainer, dllm_error* err) {
  return guard(err, [&] { need_own(trainer, "trainer").object.sync(); });
}

dllm_status dllm_trainer_run(dllm_trainer* trainer, dllm_loader* loader, int64_t steps,
                             dllm_event_fn fn, void* user_data, dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    train::LoaderSource source(need_own(loader, "loader").object);
    if (steps < 0) fail(Code::invalid_argument, "steps is {}, not 0 or more", steps);
    object.run(source, steps, event_fn(fn, user_data), task_of(task));
  });
}

dllm_status dllm_trainer_eval(dllm_trainer* trainer, dllm_loader* loader, int64_t max_batches,
                              dllm_task* task, double* out_loss, dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    train::LoaderSource source(need_own(loader, "loader").object);
    if (max_batches < 1)
      fail(Code::invalid_argument, "max_batches is {}, not 1 or more", max_batches);
    double& loss = need_out(out_loss, "out_loss");
    loss = object.eval(source, max_batches, task_of(task));
  });
}

dllm_status dllm_trainer_metric(const dllm_trainer* trainer, const char* key, double* out,
                                dllm_error* err) {
  return guard(err, [&] {
    const double value = need(trainer, "trainer").object.metric(need_text(key, "key"));
    need_out(out, "out") = value;
  });
}

dllm_status dllm_trainer_describe(const dllm_trainer* trainer, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(trainer, "trainer").object.describe()); });
}

dllm_status dllm_trainer_set_f64(dllm_trainer* trainer, const char* key, double value,
                                 dllm_error* err) {
  return guard(err, [&] { need(trainer, "trainer").object.set_f64(need_text(key, "key"), value); });
}

dllm_status dllm_trainer_add_sink(dllm_trainer* trainer, const char* kind, const char* target,
                                  const dllm_options* opts, dllm_error* err) {
  return guard(err, [&] {
    train::Trainer& object = need_own(trainer, "trainer").object;
    object.add_sink(need_text(kind, "kind"), target == nullptr ? "" : target,
                    options_of(opts, "sink"));
  });
}

dllm_status dllm_trainer_model(const dllm_trainer* trainer, const char* role, dllm_model** out,
                               dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_model(need(trainer, "trainer").object.model(need_text(role, "role")));
  });
}
