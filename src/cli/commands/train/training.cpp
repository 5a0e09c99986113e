#include "training.h"

#include "../../objective_facts.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <numeric>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A Llama shape: rotary positions, gated MLP of about 8/3 of the width, tied embeddings.
Owned<dllm_model> new_model(dllm_engine* engine, const Json& json, const dllm_options* options,
                            dllm_task* task) {
  const std::string config = json.dump();
  return make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_new(engine, config.data(), static_cast<int64_t>(config.size()), options, task,
                          out, err);
  });
}

Owned<dllm_model> model_from_scratch(const Context& context, const Run& run) {
  Json config = Json::parse(config_from_scratch(context, dllm_tokenizer_size(run.tokenizer.get()),
                                                context.number("layers")));
  int32_t mask_id = -1;
  if (dllm_tokenizer_id(run.tokenizer.get(), "<|mask|>", &mask_id, nullptr) == DLLM_OK)
    config["dllm"]["mask_token_id"] = mask_id;
  auto model = new_model(run.engine.get(), config, context.options("model"), context.task());
  call([&](dllm_error* err) {
    return dllm_model_set_tokenizer(model.get(), run.tokenizer.get(), err);
  });
  return model;
}

// Trains with the attention that the user chose for the model.
void take_attention(Context& context) {
  if (!context.typed("model", "attention") || context.typed("objective", "attention")) return;
  const auto chosen = Json::parse(context.option("model", "attention")).get<std::string>();
  if (chosen == "auto") return;
  try {
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options("objective"), "attention", chosen.c_str(), err);
    });
  } catch (const Failure&) {
    throw UsageFailure("--model.attention " + chosen + ": objective " + context.text("objective") +
                           " trains with an attention of its own",
                       "leave it out");
  }
}

void open_objective(Context& context, Run& run) {
  take_attention(context);
  if (context.has("schedule")) {
    run.schedule = make<dllm_schedule>([&](dllm_schedule** out, dllm_error* err) {
      return dllm_schedule_new(context.text("schedule").c_str(), context.options("schedule"), out,
                               err);
    });
  }
  run.objective = make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
    return dllm_objective_new(context.text("objective").c_str(), run.schedule.get(),
                              context.options("objective"), out, err);
  });
}

Owned<dllm_trainer> new_trainer(dllm_model* model, const Run& run, const dllm_options* options) {
  return make<dllm_trainer>([&](dllm_trainer** made, dllm_error* err) {
    return dllm_trainer_new(model, run.objective.get(), options, made, err);
  });
}

// Makes a trainer for a model of one layer, to find options that a trainer refuses before minutes
// are spent on the tokenizer.
void try_trainer(const Context& context, const Run& run) {
  constexpr int64_t kFewTokens = 8;
  // Patterns may name layers.
  const bool names_layers =
      context.typed("trainer", "freeze") || context.typed("trainer", "groups");
  const int64_t layers = names_layers ? context.number("layers") : 1;
  Json config = Json::parse(config_from_scratch(context, kFewTokens, layers));
  config["dllm"]["mask_token_id"] = kFewTokens - 1;
  const auto model = new_model(run.engine.get(), config, nullptr, context.task());
  Json values = Json::parse(options_json(context, "trainer"));
  // Only the user's options are set: options of another optimizer are refused even at their
  // default.
  for (auto it = values.begin(); it != values.end();)
    it = context.typed("trainer", it.key()) ? std::next(it) : values.erase(it);
  if (values.value("steps", 0) == 0 && !has_budget(context)) {
    constexpr int64_t kMany = 1 << 30; // how many the data makes is not known yet
    const bool by_epochs =
        context.typed("loader", "epochs") && context.option("loader", "epochs") != "0";
    if (context.typed("trainer", "steps") && !by_epochs)
      throw UsageFailure("--steps 0 trains nothing",
                         "leave it out, or set --minutes, --tokens or --loader.epochs");
    values["steps"] = by_epochs ? kMany : kUsualSteps;
  }
  const std::string json = values.dump();
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("trainer", out, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                 err);
  });
  new_trainer(model.get(), run, options.get());
}

void set_whole(Context& context, const char* kind, const char* key, int64_t value) {
  call([&](dllm_error* err) {
    return dllm_options_set_i64(context.options(kind), key, value, err);
  });
}

void set_cadence(Context& context, const std::string& out) {
  if (!context.typed("loader", "epochs")) set_whole(context, "loader", "epochs", 0);
  if (!context.typed("trainer", "save_wait")) set_whole(context, "trainer", "save_wait", 0);
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("trainer"), "root", out.c_str(), err);
  });
}

// Sets sync_every so that held-out losses are computed at their own step.
void set_sync(Context& context, int64_t steps) {
  const int64_t own =
      interval_steps("--sync-every", std::stod(context.option("trainer", "sync_every")), steps);
  const bool by_clock = eval_part(context, steps) > 0; // any step may be the next
  set_whole(context, "trainer", "sync_every",
            by_clock ? 1 : std::gcd(own, eval_every(context, steps)));
}

// Returns true when the objective trains the padding after texts. Packed rows have padding at the
// end of the data alone.
bool trains_padding(const Context& context, const ObjectiveFacts& objective) {
  if (objective.padding.empty()) return false;
  const std::string value = context.option("objective", objective.padding.c_str());
  return value != "false" && value != "0";
}

void set_one_text_a_row(Context& context, const ObjectiveFacts& objective) {
  const bool has_padding = trains_padding(context, objective);
  const bool needed = !objective.packs || has_padding || context.typed("loader", "trajectories");
  if (needed && !context.typed("loader", "pack")) set_whole(context, "loader", "pack", 0);
  if (has_padding && context.option("loader", "pack") == "true") {
    note_typed(context, "objective", objective.padding,
               "packed rows have hardly any padding; --pack false makes a row of each text");
  }
}

// A new head is not trained next to an adapter, so an adapter takes the heads that the model has.
void set_heads(Context& context, const std::string& heads) {
  if (heads.empty() || context.typed("model", "heads")) return;
  if (wants_adapter(context) || context.typed("model", "adapter")) return;
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("model"), "heads", heads.c_str(), err);
  });
}

// A new model has as many positions as the rows have tokens.
void set_positions(Context& context, const std::string& option) {
  if (option.empty() || context.typed("objective", option)) return;
  const int64_t length = std::stoll(context.option("loader", "length"));
  call([&](dllm_error* err) {
    return dllm_options_set_i64(context.options("objective"), option.c_str(), length, err);
  });
}

void open_model_and_rows(Context& context, Run& run) {
  const ObjectiveFacts objective = facts_of(context.text("objective"));
  set_one_text_a_row(context, objective);
  set_heads(context, objective.heads);
  set_positions(context, objective.positions);
  const bool resumed = !run.resumed_from.empty(), fresh_weights = !resumed && !context.has("from");
  if (!resumed && !context.json() && job_rank() == 0) say_adapter_cost(context, run.engine.get());
  if (!fresh_weights) {
    run.model =
        open_model(context, run.engine.get(), resumed ? run.resumed_from : context.text("from"));
  } else if (!context.has("tokenizer")) {
    try_trainer(context, run);
  }
  run.tokenizer = choose_tokenizer(context, run.resumed_from);
  open_rows(context, run);
  const bool new_template = !resumed && take_prompt_of_rows(context, run);
  if (fresh_weights) run.model = model_from_scratch(context, run);
  const bool new_tokenizer = !resumed && (context.has("tokenizer") || new_template);
  if (!fresh_weights && (new_tokenizer || !chosen_template(context).empty())) {
    call([&](dllm_error* err) {
      return dllm_model_set_tokenizer(run.model.get(), run.tokenizer.get(), err);
    });
  }
  if (!resumed) add_adapter(context, run.model.get());
  add_teacher(context, run);
}

void add_sinks(const Context& context, const Run& run, const std::string& out) {
  const auto options = make<dllm_options>(
      [](dllm_options** made, dllm_error* err) { return dllm_options_new("sink", made, err); });
  // The metrics of a start without a checkpoint are replaced, because its steps are lost.
  const int64_t append = run.resumed_from.empty() ? 0 : 1;
  call([&](dllm_error* err) { return dllm_options_set_i64(options.get(), "append", append, err); });
  const auto add = [&](const char* kind, const std::string& target) {
    call([&](dllm_error* err) {
      return dllm_trainer_add_sink(run.trainer.get(), kind, target.c_str(), options.get(), err);
    });
  };
  add("jsonl", metrics_file(out, "jsonl"));
  for (const std::string& kind : wanted_logs(context)) {
    const std::string file = metrics_file(out, kind);
    if (append != 0 && !fs::exists(file)) {
      std::fprintf(stderr, "%s begins after step %lld: %s has the steps before\n", file.c_str(),
                   static_cast<long long>(step_of(run.resumed_from)),
                   metrics_file(out, "jsonl").c_str());
    }
    add(kind.c_str(), file);
  }
  if (!context.json()) add("console", "");
}

// Continues from a checkpoint and returns the position of the data. It may be after the rows that
// --epochs has.
int64_t restore(const Context& context, Run& run) {
  const auto restore_with = [&](dllm_loader* loader) {
    call([&](dllm_error* err) {
      return dllm_checkpoint_restore(run.trainer.get(), loader, run.resumed_from.c_str(),
                                     context.task(), err);
    });
  };
  try {
    restore_with(run.loader.get());
    return dllm_loader_position(run.loader.get());
  } catch (const Failure& failure) {
    if (failure.hint().starts_with("make the trainer as it was")) {
      throw Failure(failure.status(), context.text("out") + ": " + failure.what(),
                    "leave that option out to continue, or start over with --fresh");
    }
    if (failure.status() != DLLM_OUT_OF_RANGE) throw;
    const auto endless = loader_with(context, run, R"({"epochs": 0})");
    restore_with(endless.get());
    return dllm_loader_position(endless.get());
  }
}

void set_steps(Context& context, Run& run, int64_t steps) {
  run.steps = steps;
  set_whole(context, "trainer", "steps", steps);
  set_sync(context, steps);
}

// Returns a number of steps with which the trainer of a resumed run can be made. The number of the
// run follows from the position of the data in the checkpoint.
int64_t steps_before_restore(const Context& context, const Run& run) {
  const int64_t steps = planned_steps(context, run, {0, step_of(run.resumed_from)});
  const int64_t warmup = std::stoll(context.option("trainer", "warmup"));
  return std::max(steps, chosen_epochs(context) > 0 ? warmup + 1 : 0);
}

// Prints the steps that --epochs makes, where no other limit ends the run before.
void print_steps_of_epochs(const Context& context, const Run& run) {
  const int64_t epochs = chosen_epochs(context);
  const bool ends_it =
      run.chosen_steps > run.steps || (run.chosen_steps == 0 && !has_budget(context));
  if (epochs == 0 || !ends_it) return;
  std::fprintf(stderr, "--epochs %lld of this text makes %lld steps\n",
               static_cast<long long>(epochs), static_cast<long long>(run.steps));
}

// Continues a run. The rest of --epochs counts from what the checkpoint has read, because earlier
// steps may have had other batches.
void resume(Context& context, Run& run, const std::string& out) {
  const int64_t position = restore(context, run);
  if (chosen_epochs(context) == 0) return;
  const int64_t now = position_now(context, run, position, rows_before(context, out));
  const auto seek = [&] {
    run.is_past_data = dllm_loader_seek(run.loader.get(), now, nullptr) != DLLM_OK;
  };
  seek();
  const Json trainer = trainer_description(run);
  const auto done = static_cast<int64_t>(trainer_metric(run, "step"));
  const int64_t steps = planned_steps(context, run, {now, done, trainer.at("accumulated")});
  if (steps == run.steps) return;
  set_steps(context, run, steps);
  if (done >= steps) return; // no step follows
  run.trainer = nullptr;     // before the next one takes its memory
  run.trainer = new_trainer(run.model.get(), run, context.options("trainer"));
  restore(context, run);
  seek();
}

// Saves the tokenizer into the run's folder; tokenizer_config.json there holds the chat template.
void save_tokenizer(const Run& run, const std::string& out) {
  const std::string config = out + "/tokenizer_config.json";
  std::error_code ignored;
  const bool is_chat = !encode_chat(run.tokenizer.get()).empty();
  if (!is_chat && fs::exists(out + "/run.json")) fs::remove(config, ignored); // of an attempt
  call([&](dllm_error* err) {
    return dllm_tokenizer_save(run.tokenizer.get(),
                               (is_chat ? out : out + "/tokenizer.json").c_str(), err);
  });
}

} // namespace

Run open_run(Context& context) {
  const std::string root = context.text("out"), out = run_folder(context);
  if (job_rank() == 0) recover_replaced(out);
  const bool fresh = context.flag("fresh"), in_store = is_in_store(root);
  const bool is_new = fresh || latest_checkpoint(context, root).empty();
  // Every rank reads the record of a shared folder. Settings of a run in an object store are on the
  // host of the first rank alone.
  const bool has_record = !is_new && (job_size() == 1 || !in_store);
  if (has_record) keep_settings(context, out);
  set_template(context, "dataset");
  check_values(context);
  Run run;
  if (fresh && in_store) {
    throw UsageFailure("--fresh does not remove objects of an object store: " + root,
                       "remove it by the store's own tools, or name another place with --out");
  }
  if (is_new) check_sources(context);
  if (job_rank() == 0) {
    run.lock = std::make_unique<RunLock>(out);
    if (in_store) std::fprintf(stderr, "metrics and settings of the run: %s\n", out.c_str());
  }
  // No process continues before the first has arrived here, so that all find the same folder.
  if (job_size() > 1) run.engine = open_engine(context);
  if (!fresh) run.resumed_from = latest_checkpoint(context, root);
  if (!run.resumed_from.empty()) {
    check_resumed(context, out);
    call([&](dllm_error* err) { // the checkpoint has the adapter, and the weights of its training
      const dllm_status status = dllm_options_set_str(context.options("model"), "adapter", "", err);
      return status != DLLM_OK
                 ? status
                 : dllm_options_set_str(context.options("model"), "weights", "live", err);
    });
  }
  if (run.engine == nullptr) run.engine = open_engine(context);
  set_cadence(context, root);
  open_objective(context, run);
  open_model_and_rows(context, run);
  if (context.number("patience") > 0 &&
      (run.held_out == nullptr || context.number("eval-batches") == 0 ||
       context.real("eval-every") == 0)) {
    throw UsageFailure(
        "--patience " + context.text("patience") + " counts held-out losses, and this run has none",
        "set --eval-every and --eval-batches, or give more text with a --split-fraction");
  }
  run.chosen_steps = std::stoll(context.option("trainer", "steps"));
  set_steps(context, run,
            run.resumed_from.empty() ? planned_steps(context, run)
                                     : steps_before_restore(context, run));
  const std::string before = model_description(run.model.get());
  run.trainer = new_trainer(run.model.get(), run, context.options("trainer"));
  const bool started_from = run.resumed_from.empty() && context.has("from");
  if (started_from) print_changes(context, before, model_description(run.model.get()));
  if (!run.resumed_from.empty()) resume(context, run, out);
  print_steps_of_epochs(context, run);
  // Only the first step shows that the new run can train, and --from may name the old one.
  if (fresh && job_rank() == 0) run.replaced = std::make_unique<ReplacedRun>(out);
  add_sinks(context, run, out);
  if (run.resumed_from.empty()) {
    if (job_rank() > 0) return run;
    save_tokenizer(run, out);
    write_start(context, run, out);
    std::error_code ignored;
    fs::remove(examples_file(out), ignored); // of an attempt without a checkpoint
    remove_best_after(out, -1);
    fs::remove(out + "/best", ignored); // stays when it has other files
    return run;
  }
  if (job_rank() == 0) rewind_examples(out, static_cast<int64_t>(trainer_metric(run, "step")));
  run.saved = run.resumed_from;
  run.has_record = has_record;
  if (has_record) note_changes(context, run, out);
  std::fprintf(stderr, "resumed from %s\n", run.resumed_from.c_str());
  return run;
}

} // namespace dllm::cli
