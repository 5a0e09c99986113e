#include "handlers/training/optim_runs.h"

#include "base/error.h"
#include "handlers/models/reference_names.h"
#include "handlers/training/loss_checks.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {

train::LearningRate jax_learning_rate(const std::string& kind, int64_t total, double warmup_ratio,
                                      double peak, double low) {
  train::LearningRate rate;
  rate.starts_at_zero = true;
  if (total <= 1 || (kind != "cosine" && kind != "linear")) return rate;
  rate.kind = kind;
  rate.total = total;
  rate.floor_share = peak > 0 ? low / peak : 0;
  const auto wanted = static_cast<int64_t>(static_cast<double>(total) * warmup_ratio);
  rate.warmup = std::min(std::max<int64_t>(1, wanted), total - 1);
  return rate;
}

train::LearningRate nano_learning_rate(const Json& train) {
  train::LearningRate rate;
  rate.starts_at_zero = true;
  const std::string kind = train.at("lr_schedule").get<std::string>();
  if (kind == "none") return rate;
  rate.warmup = train.at("warmup_steps").get<int64_t>();
  if (kind == "warmup_constant") return rate;
  rate.kind = kind == "wsd" ? "wsd" : "cosine";
  rate.total = train.at("max_steps").get<int64_t>();
  rate.floor_share = train.at("min_lr").get<double>() / train.at("lr").get<double>();
  rate.cooldown_start = train.value("cooldown_start_steps", int64_t{0});
  return rate;
}

namespace {

void set_rate(Options& options, const train::LearningRate& rate, double peak) {
  options.set_f64("lr", peak);
  options.set_str("schedule", rate.kind);
  options.set_i64("steps", rate.total);
  options.set_i64("warmup", rate.warmup);
  options.set_f64("min_lr", rate.floor_share * peak);
  options.set_i64("cooldown_start", rate.cooldown_start);
}

// Parameters or moments by logical name.
std::map<std::string, Tensor> logical(const train::Trainer& trainer, const std::string& kind) {
  const model::ParamStore& store = trainer.trained_model().params();
  std::map<std::string, Tensor> made;
  const auto add = [&](const model::ParamSpec& layout, const graph::BufferRef& buffer) {
    for (auto& [name, tensor] : model::split_physical(layout, buffer->read()))
      made[name] = tensor.clone();
  };
  const auto& entries = trainer.spec().state;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name == kind) add(entries[i].layout, trainer.arrays()[i]);
  }
  for (const size_t index : trainer.spec().trained) {
    if (kind == "param") add(store.physical()[index].spec, store.physical()[index].buffer);
  }
  return made;
}

// How much a parameter may differ: a share of the entries may pass the tolerance, up to `far`,
// because Adam turns a gradient near zero into a whole step either way.
struct Allowance {
  Tolerance tolerance;
  double share = 0;
  double far = 0;
};

void compare_mostly(Case& c, const Tensor& got, const Tensor& want, const Allowance& allowed,
                    const std::string& what) {
  if (allowed.share == 0) return c.close(allowed.tolerance, got, want, what);
  Tensor near(DType::u8, want.shape());
  int64_t outside = 0;
  for (size_t i = 0; i < near.mutable_as<uint8_t>().size(); ++i) {
    const bool within =
        std::abs(got.as<float>()[i] - want.as<float>()[i]) <= allowed.tolerance.absolute;
    near.mutable_as<uint8_t>()[i] = within ? 1 : 0;
    outside += within ? 0 : 1;
  }
  c.close(allowed.tolerance, got, want, what, near);
  c.close({allowed.far, 0}, got, want, what + " (far)");
  c.check(static_cast<double>(outside) <=
              std::ceil(allowed.share * static_cast<double>(want.count())),
          what + ": " + std::to_string(outside) + " entries beyond the tolerance");
}

// Every array "<prefix>.<tensor>" the case holds.
void compare_all(Case& c, const std::map<std::string, Tensor>& got, const std::string& prefix,
                 const Allowance& allowed) {
  for (const auto& [name, tensor] : got) {
    if (c.has(prefix + "." + name))
      compare_mostly(c, tensor, c.array(prefix + "." + name), allowed, prefix + "." + name);
  }
}

// One of several stacked arrays: "param_trace.<tensor>" (steps, ...).
void compare_trace(Case& c, const std::map<std::string, Tensor>& got, int64_t step,
                   const Allowance& allowed) {
  for (const auto& [name, tensor] : got) {
    if (!c.has("param_trace." + name)) continue;
    compare_mostly(c, tensor, c.array("param_trace." + name).row(step), allowed,
                   "param_trace." + name + " step " + std::to_string(step));
  }
}

double at(const Tensor& array, int64_t index) {
  return array.as<float>()[static_cast<size_t>(index)];
}

// Prepared batches of each step, from either of the two forms of cases.json.
std::vector<std::vector<int64_t>> batches_of_steps(const Json& entry) {
  if (entry.contains("prepared_batches_of_each_step")) {
    return entry.at("prepared_batches_of_each_step").get<std::vector<std::vector<int64_t>>>();
  }
  std::vector<std::vector<int64_t>> steps;
  const Json& order = entry.at("prepared_batch_order");
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].get<std::string>().starts_with("step")) steps.push_back({static_cast<int64_t>(i)});
  }
  return steps;
}

Batch dataset_rows(Case& c, const Tensor& rows) {
  Batch raw;
  for (const auto& [array, name] :
       {std::pair{"dataset.input_ids", "ids"}, std::pair{"dataset.labels", "labels"}}) {
    const Tensor& all = c.array(array);
    Tensor made(DType::i32, {rows.count(), all.shape()[1]});
    for (int64_t b = 0; b < rows.count(); ++b) {
      const Tensor row = all.row(rows.as<int32_t>()[static_cast<size_t>(b)]);
      std::ranges::copy(row.as<int32_t>(), made.mutable_as<int32_t>().begin() + b * all.shape()[1]);
    }
    raw.set(name, made);
  }
  return raw;
}

Batch prepared_jax(Case& c, const noise::Objective& objective, const noise::PrepareContext& context,
                   uint64_t seed, int64_t index) {
  const std::string prefix = "batch" + std::to_string(index) + ".";
  const Batch prepared =
      objective.prepare(dataset_rows(c, c.array(prefix + "rows")), seed, index, context);
  c.equal(prepared.at("ids"), c.array(prefix + "model_input_ids"), prefix + "model_input_ids");
  return prepared;
}

std::string objective_of_trainer(const std::string& trainer) {
  if (trainer == "MDLMTrainer") return "mdlm";
  if (trainer == "BD3LMTrainer") return "bd3lm";
  if (trainer == "DMaxTrainer") return "dmax";
  return trainer == "DreamTrainer" ? "dream" : "";
}

} // namespace

void run_jax_training(Case& c, const Json& entry) {
  c.set_prefix("");
  const Json& parameters = entry.at("parameters");
  const std::string kind = parameters.at("trainer").get<std::string>();
  const std::string name = objective_of_trainer(kind);
  if (name.empty()) c.skip("trainer " + kind + " arrives later");
  const double peak = parameters.at("learning_rate").get<double>();
  const int64_t steps = parameters.at("steps").get<int64_t>();

  Options options(train::trainer_schema());
  set_rate(options,
           jax_learning_rate(parameters.at("lr_scheduler_type").get<std::string>(), steps,
                             parameters.at("warmup_ratio").get<double>(), peak,
                             parameters.at("min_learning_rate").get<double>()),
           peak);
  options.set_str("compat", "dllm-jax");
  options.set_str("decay", "all");
  options.set_f64("weight_decay", parameters.at("weight_decay").get<double>());
  options.set_f64("clip", parameters.at("grad_clip_norm").get<double>());
  options.set_f64("beta1", parameters.at("adam_b1").get<double>());
  options.set_f64("beta2", parameters.at("adam_b2").get<double>());
  options.set_f64("eps", parameters.at("adam_eps").get<double>());
  const noise::ObjectiveRef objective = name == "dmax"
                                            ? reference_dmax(parameters, "dllm-jax")
                                            : reference_objective(name, parameters, "dllm-jax");
  const std::shared_ptr<model::Model> model =
      model::clone_model(*c.topic().model(entry.at("model").get<std::string>()));
  train::Trainer trainer(model, objective, options);

  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.bos_id =
      parameters.value("bos_id", int64_t{1}); // 1: of the set's tokenizer (golden README)
  const auto seed = parameters.at("seed").get<uint64_t>();
  const Tolerance loss_tolerance{1e-6, entry.value("rtol_loss", 1e-4)};
  // atol_param of cases.json; the set's README allows a whole step where a gradient is near zero.
  const double moves = peak * static_cast<double>(steps);
  const Allowance allowed{{2e-2 * moves + 1e-6, 0}, 1e-3, 2 * moves};
  const auto batches = batches_of_steps(entry);
  for (size_t step = 0; step < batches.size(); ++step) {
    const auto index = static_cast<int64_t>(step);
    double loss = 0;
    if (batches[step].size() == 1) {
      loss = trainer.step(prepared_jax(c, *objective, context, seed, batches[step][0]));
    } else {
      for (const int64_t batch : batches[step])
        trainer.accumulate(prepared_jax(c, *objective, context, seed, batch));
      loss = trainer.apply();
    }
    c.close(loss_tolerance, loss, at(c.array("loss"), index), "loss");
    if (c.has("grad_norm_before_clip")) {
      c.close({1e-6, 1e-3}, trainer.metric("grad_norm"),
              at(c.array("grad_norm_before_clip"), index), "grad_norm");
    }
    c.close({1e-9, 1e-5}, trainer.metric("lr"), at(c.array("used_learning_rate"), index),
            "learning rate");
    compare_trace(c, logical(trainer, "param"), index, allowed);
  }
  compare_all(c, logical(trainer, "param"), "param_final", allowed);
  compare_all(c, logical(trainer, "first"), "adam_mu", {{2e-4, 1e-2}});
  compare_all(c, logical(trainer, "second"), "adam_nu", {{1e-5, 2e-2}});
}

namespace {

Batch nano_batch(Case& c, const noise::Schedule& schedule, int64_t step, int32_t mask) {
  const Tensor ids = c.array("input_ids").row(step), labels = c.array("labels").row(step);
  const Tensor times = c.array("timesteps").row(step);
  Tensor targets(DType::i32, ids.shape()), weights(DType::f32, ids.shape()),
      normalizer(DType::f32, {ids.shape()[0]});
  for (int64_t b = 0; b < ids.shape()[0]; ++b) {
    const double t =
        times.as<int32_t>()[static_cast<size_t>(b)] / static_cast<double>(schedule.steps());
    for (int64_t i = 0; i < ids.shape()[1]; ++i) {
      const auto where = static_cast<size_t>(b * ids.shape()[1] + i);
      const bool hit = ids.as<int32_t>()[where] == mask;
      targets.mutable_as<int32_t>()[where] = hit ? labels.as<int32_t>()[where] : -1;
      weights.mutable_as<float>()[where] = static_cast<float>(schedule.weight(t));
      normalizer.mutable_as<float>()[static_cast<size_t>(b)] += hit ? 1.0f : 0.0f;
    }
  }
  Batch made;
  made.set("ids", ids);
  made.set("targets", targets);
  made.set("weights", weights);
  made.set("normalizer", normalizer);
  made.set("timesteps", times.to(DType::f32));
  return made;
}

double parameter_norm(const train::Trainer& trainer) {
  double squares = 0;
  for (const auto& [name, tensor] : logical(trainer, "param"))
    squares += norm_of(tensor) * norm_of(tensor);
  return std::sqrt(squares);
}

} // namespace

void run_nano_training(Case& c, const Json& entry) {
  const Json& settings = entry.at("train");
  const double peak = settings.at("lr").get<double>();
  Options options(train::trainer_schema());
  set_rate(options, nano_learning_rate(settings), peak);
  options.set_str("compat", "nano");
  options.set_str("decay", "all");
  for (const auto& [ours, theirs] :
       {std::pair{"beta1", "beta1"}, std::pair{"beta2", "beta2"}, std::pair{"eps", "eps"},
        std::pair{"weight_decay", "weight_decay"}, std::pair{"clip", "clip_grad_norm"}}) {
    options.set_f64(ours, settings.at(theirs).get<double>());
  }
  const noise::ScheduleRef schedule = nano_schedule(entry);
  Options loss_options(noise::objective_schema("token_ce"));
  loss_options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const std::shared_ptr<model::Model> model =
      model::clone_model(*c.topic().model(entry.at("model").get<std::string>()));
  train::Trainer trainer(model, noise::make_objective("token_ce", schedule, loss_options), options);

  const auto mask = static_cast<int32_t>(model->config().mask_token_id);
  const int64_t every = settings.at("grad_acc_steps").get<int64_t>(),
                steps = entry.at("micro_steps").get<int64_t>();
  const double relative = c.topic().cases().value("loss_rtol", 2e-4);
  // param_note of cases.json
  const Allowance allowed{{c.topic().cases().value("param_atol", 2e-5), 0},
                          1e-3,
                          2 * peak * static_cast<double>(steps)};
  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch = nano_batch(c, *schedule, step, mask);
    double loss = 0;
    if (every == 1) {
      loss = trainer.step(batch);
      c.close({1e-6, 1e-3}, trainer.metric("grad_norm"), at(c.array("grad_norm"), step),
              "grad_norm");
    } else {
      const double before = trainer.sums().mean_sum;
      trainer.accumulate(batch);
      loss = trainer.sums().mean_sum - before;
      if (trainer.accumulated() == every) trainer.apply();
    }
    c.close({1e-6, relative}, loss, at(c.array("loss"), step), "loss");
    c.close({1e-4, 1e-4}, parameter_norm(trainer), at(c.array("parameter_norm"), step),
            "parameter_norm");
    compare_trace(c, logical(trainer, "param"), step, allowed);
  }
  compare_all(c, logical(trainer, "param"), "param_final", allowed);
  compare_all(c, logical(trainer, "first"), "adam_mu", {{2e-4, 1e-2}});
  compare_all(c, logical(trainer, "second"), "adam_nu", {{1e-5, 2e-2}});
}

} // namespace dllm::parity
