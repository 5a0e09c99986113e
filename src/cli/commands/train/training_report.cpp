// This file prints the start of a training run, changes of a model, and held-out losses.

#include "../../objective_facts.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parsed(const std::string& json) {
  return Json::parse(json, nullptr, false);
}

} // namespace

std::string model_description(const dllm_model* model) {
  return text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_model_describe(model, out, err); });
}

std::string options_json(const Context& context, const char* kind) {
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options(kind), out, err);
  });
}

double trainer_metric(const Run& run, const char* key) {
  double value = 0;
  call([&](dllm_error* err) { return dllm_trainer_metric(run.trainer.get(), key, &value, err); });
  return value;
}

Json trainer_description(const Run& run) {
  return parsed(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_trainer_describe(run.trainer.get(), out, err);
  }));
}

void print_changes(const Context& context, const std::string& from, const std::string& made) {
  const Json before = parsed(from), after = parsed(made);
  const std::string name = std::filesystem::path(context.text("from")).filename();
  const auto was = before.value("attention", ""), is = after.value("attention", "");
  const int64_t shift = after.value("shift", 0);
  if (was != is || before.value("shift", 0) != shift) {
    const std::string way = is == "bidirectional" ? "in both directions"
                            : is == "causal"      ? "from left to right"
                                                  : is;
    std::fprintf(stderr, "%s is a %s model: trained from here on %s, shift %lld\n", name.c_str(),
                 was.c_str(), way.c_str(), static_cast<long long>(shift));
  }
  const int64_t mask = after.value("mask_token_id", -1), rows = before.value("vocab", 0);
  if (before.value("mask_token_id", -1) >= 0 || mask < 0) return;
  std::fprintf(
      stderr, "%s has no mask token: %s %lld becomes <|mask|>, in the model and in its tokenizer\n",
      name.c_str(), mask < rows ? "the unused row" : "the new row", static_cast<long long>(mask));
}

namespace {

// Returns the line about arrays outside of the engine; "" for a run without them.
std::string offload_text(const Run& run) {
  const Json offload = trainer_description(run).value("offload", Json());
  if (!offload.is_object()) return "";
  const auto mib = [&](const char* key) { return offload.value(key, 0.0) / (1 << 20); };
  char line[160];
  std::snprintf(
      line, sizeof line,
      "state of the optimizer: %.1f MiB in %s, at most %.1f MiB in memory during an update",
      mib("bytes"), offload.value("place", "").c_str(), mib("window"));
  return line;
}

// Returns the rates of the optimizer's groups from the smallest; empty when all tensors have one.
Json rates_of(const Run& run) {
  return trainer_description(run).value("optimizer", Json::object()).value("rates", Json::array());
}

// Returns the line about them; "" for a run with one rate.
std::string rates_text(const Run& run) {
  const Json rates = rates_of(run);
  if (rates.empty()) return "";
  const auto rate = [](const Json& row) {
    char text[240];
    std::snprintf(text, sizeof text, "%.4g (%.160s)", row.value("lr_factor", 1.0),
                  row.at("tensors").front().get<std::string>().c_str());
    return std::string(text);
  };
  return "learning rates: " + std::to_string(rates.size()) + " groups, from --lr times " +
         rate(rates.front()) + " to --lr times " + rate(rates.back());
}

} // namespace

std::string describe_run(Context& context, const Run& run) {
  const int64_t parameters = model_number(run.model.get(), "params"),
                rows = dllm_dataset_size(run.data.get());
  const int64_t words = dllm_tokenizer_size(run.tokenizer.get());
  if (context.json()) {
    Json line = {{"event", "start"},
                 {"out", context.text("out")},
                 {"resumed_from", run.resumed_from},
                 {"parameters", parameters},
                 {"vocabulary", words},
                 {"rows", rows},
                 {"held_out", run.held_out != nullptr},
                 {"steps", run.steps},
                 {"model", parsed(model_description(run.model.get()))}};
    line["model"].erase("storage");
    line["adapters"] = parsed(adapters_json(run.model.get()));
    line["rates"] = rates_of(run);
    for (const char* kind :
         {"engine", "model", "adapter", "dataset", "loader", "objective", "schedule", "trainer"}) {
      line["options"][kind] = parsed(options_json(context, kind));
    }
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const std::string of = context.option("dataset", "rows");
  const char* unit = of == "\"line\"" ? "lines" : of == "\"paragraph\"" ? "paragraphs" : "pieces";
  int64_t threads = 0;
  dllm_engine_i64(run.engine.get(), "threads", &threads, nullptr);
  const char* device = dllm_engine_device_name(run.engine.get(), 0);
  const std::string where =
      threads > 0
          ? std::to_string(threads) + " threads" +
                (job_size() > 1 ? " in each of " + std::to_string(job_size()) + " processes" : "")
          : std::string("on ") + (device != nullptr ? device : "a device");
  char line[240];
  std::snprintf(line, sizeof line, "%.2f M parameters, vocabulary %lld, %lld %s of text, %s",
                static_cast<double>(parameters) / 1e6, static_cast<long long>(words),
                static_cast<long long>(rows), unit, where.c_str());
  std::string made = line;
  for (const std::string& more :
       {adapters_text(run.model.get()), rates_text(run), offload_text(run)})
    made += more.empty() ? "" : "\n" + more;
  return made;
}

void warn_of_divergence(const Context& context, Run& run, const std::string& what) {
  if (run.diverged) return;
  run.diverged = true;
  std::string tries = "lower --lr " + context.option("trainer", "lr");
  if (std::stod(context.option("trainer", "clip")) == 0) tries += ", or set --clip 1";
  std::fprintf(stderr, "%s: the training diverges; %s\n", what.c_str(), tries.c_str());
}

namespace {

// Warns when the loss is far above the loss of a random guess. Only for objectives whose loss is
// nats per token.
void compare_with_guess(const Context& context, Run& run, int64_t step, double loss) {
  if (!facts_of(context.text("objective")).likelihood) return;
  const double guess = std::log(static_cast<double>(model_number(run.model.get(), "vocab")));
  if (!(loss > 3 * guess)) return;
  char text[160];
  std::snprintf(text, sizeof text,
                "step %lld: the held-out loss %.4g is far above the loss of a guess, %.1f",
                static_cast<long long>(step), loss, guess);
  warn_of_divergence(context, run, text);
}

// Saves a checkpoint into out/best, which keeps the checkpoints of the lowest losses. A run that
// went back to an earlier step first removes its later ones.
void save_best(const Context& context, const Run& run, int64_t step) {
  if (job_rank() == 0) remove_best_after(run_folder(context), step);
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("checkpoint", out, err); });
  const auto set = [&](const char* key, int64_t value) {
    call([&](dllm_error* err) { return dllm_options_set_i64(options.get(), key, value, err); });
  };
  set("keep_last", 1); // the one that is saved
  Json steps = Json::array();
  for (const auto& kept : run.best.kept()) steps.push_back(kept.second);
  const std::string json = Json{{"keep_steps", std::move(steps)}}.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                 err);
  });
  set("wait", context.option("trainer", "save_wait") == "true" ? 1 : 0);
  set("overwrite", 1); // by a run that went back to an earlier checkpoint
  call([&](dllm_error* err) {
    return dllm_checkpoint_save(run.trainer.get(), run.loader.get(), best_root(context).c_str(),
                                options.get(), context.task(), nullptr, err);
  });
}

// Keeps the checkpoints of the lowest held-out losses. All ranks save together, and the first
// writes the record.
void keep_best(const Context& context, Run& run, int64_t step, double loss) {
  run.best.add(step, loss);
  if (run.best.keep(step, loss, context.number("keep-best"))) save_best(context, run, step);
  if (job_rank() == 0) write_best(run.best, run_folder(context));
}

// Returns the held-out loss of the step in which the run was stopped, as its files have it. The
// stop may have come after the loss, while examples were predicted. Returns null without a loss,
// and in a job of several processes, which have to decide the same.
Json written_held_out(const Context& context, const Run& run, int64_t step) {
  if (run.evaluating != step || !run.has_same_rows || job_size() > 1) return nullptr;
  std::ifstream file(run_folder(context) + "/metrics.jsonl", std::ios::binary);
  Json found;
  for (std::string line; std::getline(file, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object() || event.value("event", "") != "eval") continue;
    if (event.value("step", Json()) == step && event.value("loss", Json()).is_number())
      found = event;
  }
  return found;
}

// Computes the held-out loss, which the trainer sends to the console and the files of metrics.
// Returns nothing when no held-out row has a token to learn. The run has no held-out rows then.
std::optional<double> evaluate_held_out(const Context& context, Run& run) {
  double loss = 0;
  try {
    call([&](dllm_error* err) {
      return dllm_trainer_eval(run.trainer.get(), run.held_out.get(),
                               context.number("eval-batches"), context.task(), &loss, err);
    });
    return loss;
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_OUT_OF_RANGE) throw;
    run.held_out = nullptr; // all ranks see it
    std::fprintf(stderr, "held-out rows: %s; the run goes on without a held-out loss\n",
                 failure.what());
    if (job_rank() == 0) write_best(run.best, run_folder(context));
    return std::nullopt;
  }
}

Json held_out_line(const Run& run, int64_t step) {
  Json line = {{"event", "eval"}, {"step", step}};
  const std::string prefix = "held_out_";
  const Json metrics = trainer_description(run)["metrics"];
  for (const auto& [key, value] : metrics.items()) {
    if (key.starts_with(prefix)) line[key.substr(prefix.size())] = value;
  }
  return line;
}

} // namespace

void print_held_out(Context& context, Run& run, int64_t step) {
  if (run.held_out == nullptr || context.number("eval-batches") == 0 || run.last_eval == step)
    return;
  run.last_eval = step;
  const Json written = written_held_out(context, run, step);
  if (job_rank() == 0) write_evaluating(step, run_folder(context));
  if (run.evaluating == step && job_rank() == 0) rewind_examples(run_folder(context), step - 1);
  call([&](dllm_error* err) { return dllm_loader_seek(run.held_out.get(), 0, err); });
  const std::optional<double> loss =
      written.is_null() ? evaluate_held_out(context, run) : written["loss"].get<double>();
  if (!loss) return;
  record_examples(context, run, step);
  keep_best(context, run, step, *loss);
  compare_with_guess(context, run, step, *loss);
  if (!context.json()) return;
  const Json line = written.is_null() ? held_out_line(run, step) : written;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

} // namespace dllm::cli
