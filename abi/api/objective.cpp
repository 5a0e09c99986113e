#include "handles.h"

#include "noise/loss/evaluate.h"

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_objective_new(const char* name, const dllm_schedule* schedule,
                               const dllm_options* opts, dllm_objective** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const std::string wanted = need_text(name, "name");
    noise::objective_schema(wanted);
    const dllm_schedule* given = optional(schedule, "schedule");
    *out =
        new dllm_objective(noise::make_objective(wanted, given == nullptr ? nullptr : given->object,
                                                 options_of(opts, "objective:" + wanted)));
  });
}

void dllm_objective_release(dllm_objective* objective) {
  release(objective);
}

dllm_status dllm_objective_prepare(const dllm_objective* objective, const dllm_model* model,
                                   const dllm_batch* batch, int64_t seed, int64_t step,
                                   dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const noise::Objective& object = *need(objective, "objective").object;
    const Batch& rows = need(batch, "batch").object;
    if (step < 0) fail(Code::invalid_argument, "step is {}, not 0 or more", step);
    const dllm_model* given = optional(model, "model");
    // Without a model the objective's options give mask id and shift.
    const noise::PrepareContext context = noise::prepare_context(
        object, given != nullptr ? given->object->config() : model::ModelConfig{});
    *out = new dllm_batch(object.prepare(rows, static_cast<uint64_t>(seed), step, context));
  });
}

dllm_status dllm_objective_loss(dllm_objective* objective, dllm_model* model,
                                const dllm_batch* batch, int64_t seed, dllm_task* task,
                                double* out_loss, dllm_error* err) {
  return guard(err, [&] {
    const auto& object = need(objective, "objective").object;
    const auto& on = need(model, "model").object;
    const Batch& rows = need(batch, "batch").object;
    double& loss = need_out(out_loss, "out_loss");
    noise::LossRunner runner(on, object);
    loss = runner.run(rows, static_cast<uint64_t>(seed), 0, task_of(task)).mean();
  });
}

dllm_status dllm_objective_row_losses(dllm_objective* objective, dllm_model* model,
                                      const dllm_batch* batch, int64_t seed, dllm_task* task,
                                      dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& object = need(objective, "objective").object;
    const auto& on = need(model, "model").object;
    const Batch& rows = need(batch, "batch").object;
    noise::LossRunner runner(on, object);
    const noise::RowLosses losses =
        runner.run_rows(rows, static_cast<uint64_t>(seed), 0, task_of(task));
    const Shape shape{static_cast<int64_t>(losses.sums.size())};
    auto made = std::make_unique<dllm_batch>();
    made->object.set("sums", Tensor::from(shape, losses.sums));
    made->object.set("counts", Tensor::from(shape, losses.counts));
    *out = made.release();
  });
}
