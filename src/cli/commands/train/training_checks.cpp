#include "../../objective_facts.h"
#include "../../options/names.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void at_least(const Context& context, const char* name, int64_t least) {
  if (context.real(name) >= static_cast<double>(least)) return;
  throw UsageFailure("--" + std::string(name) + " " + context.text(name) + " is below " +
                     std::to_string(least));
}

void check_trajectories(const Context& context) {
  if (context.typed("loader", "trajectories")) return;
  for (const char* key :
       {"trajectory_min_ratio", "trajectory_max_ratio", "trajectory_ramp", "trajectory_blocks"})
    refuse_typed(context, "objective", key, "it is for --trajectories");
}

// Fails for options of loader, trainer and model that this command sets itself.
void check_decided_here(const Context& context) {
  if (context.typed("trainer", "root")) {
    throw UsageFailure("--trainer.root: the folder of the run is --out " + context.text("out"));
  }
  if (context.typed("loader", "split") && context.option("loader", "split") == "\"held_out\"") {
    throw UsageFailure("--loader.split held_out trains on the rows of the held-out loss",
                       "set train for all but the held-out rows (default), or all for every row "
                       "without a held-out loss");
  }
  if (context.typed("model", "cache_dtype")) {
    throw UsageFailure("--cache-dtype is for decoding: training keeps no K and V");
  }
  check_engine(context);
  if (context.has("schedule")) return;
  const Json options = Json::parse(options_json(context, "schedule"));
  for (const auto& [key, value] : options.items()) {
    if (!context.typed("schedule", key)) continue;
    throw UsageFailure(option_name("schedule", key) + " needs --schedule with a name",
                       "the schedule of the learning rate is --trainer.schedule");
  }
}

// Fails for options of a new model when --from is set: an existing model has its shape, weights and
// vocabulary.
void check_from(const Context& context) {
  if (!context.has("from")) return;
  std::string named;
  for (const char* name : {"layers", "hidden"}) {
    if (context.typed(name)) named += (named.empty() ? "--" : " and --") + std::string(name);
  }
  if (!named.empty()) {
    const bool is_one = named.find(' ') == std::string::npos;
    throw UsageFailure(named + (is_one ? " is" : " are") + " for a new model; --from has its own");
  }
  if (context.typed_alone("model", "seed"))
    throw UsageFailure("--model.seed is for a new model; --from has its weights");
}

[[noreturn]] void fail_differs(const std::string& name, const std::string& given,
                               const std::string& before, const std::string& out) {
  throw UsageFailure(dashed("--" + name) + " " + given + " differs from " + before + ", which " +
                         out + " was started with",
                     "leave it out to continue, or start over with --fresh");
}

// Returns true when two values of option adapter name one folder.
bool is_one_folder(const Json& one, const Json& other) {
  if (!one.is_string() || !other.is_string() || one == "" || other == "") return false;
  return is_same_place(full_path(one.get<std::string>()), full_path(other.get<std::string>()));
}

// Returns option alpha, for which 0 is twice the rank.
double meant_alpha(const Json& alpha, const Json& rank) {
  const double given = alpha.is_number() ? alpha.get<double>() : 0;
  return given != 0 ? given : 2 * rank.get<double>();
}

} // namespace

std::vector<std::string> log_kinds() {
  std::vector<std::string> kinds = registry_names("sink");
  // A run has both of these anyway.
  std::erase_if(kinds,
                [](const std::string& kind) { return kind == "console" || kind == "jsonl"; });
  return kinds;
}

std::vector<std::string> wanted_logs(const Context& context) {
  const std::vector<std::string> known = log_kinds();
  std::vector<std::string> wanted;
  std::stringstream words(context.text("log"));
  for (std::string kind; std::getline(words, kind, ',');) {
    if (std::find(known.begin(), known.end(), kind) == known.end())
      throw UsageFailure("--log: " + no_such("log", kind, known), "there are " + listed(known));
    if (std::find(wanted.begin(), wanted.end(), kind) == wanted.end()) wanted.push_back(kind);
  }
  return wanted;
}

void check_values(Context& context) {
  if (!context.has("data")) {
    throw UsageFailure("--data is missing: the text to train on",
                       "a run that has a checkpoint needs no --data to go on: name it with --out");
  }
  at_least(context, "layers", 1);
  at_least(context, "eval-every", 0);
  at_least(context, "eval-batches", 0);
  at_least(context, "keep-best", 0);
  at_least(context, "patience", 0);
  at_least(context, "examples", 0);
  TrainingLimit(context.text("stop-above")); // fails for another text than NAME=NUMBER
  const int64_t hidden = context.number("hidden");
  if (hidden < 64 || hidden % 64 != 0) {
    throw UsageFailure("--hidden " + std::to_string(hidden) + " is not a multiple of 64");
  }
  const auto words = make<dllm_options>([](dllm_options** out, dllm_error* err) {
    return dllm_options_new("tokenizer_train", out, err);
  });
  try {
    call([&](dllm_error* err) {
      return dllm_options_set_i64(words.get(), "vocab_size", context.number("vocab"), err);
    });
  } catch (const Failure& failure) {
    throw UsageFailure("--vocab: " + std::string(failure.what()), failure.hint());
  }
  wanted_logs(context);
  const bool all =
      context.typed("loader", "split") && context.option("loader", "split") == "\"all\"";
  if (!all && std::stod(context.option("loader", "split_fraction")) >= 1) {
    throw UsageFailure("--split-fraction 1 holds out every row, so none is left to train on",
                       "hold out a part of the rows, such as 0.1");
  }
  // Some objectives turn packing off.
  const bool packs = context.typed("loader", "pack") || facts_of(context.text("objective")).packs;
  if (packs && context.option("loader", "pack") == "true")
    note_typed(context, "loader", "truncate",
               "packed rows are cut nowhere; --pack false cuts them");
  if (context.option("trainer", "schedule") != "\"wsd\"")
    note_typed(context, "trainer", "cooldown_start", "it is for --trainer.schedule wsd");
  set_rank(context);
  set_teacher(context);
  check_decided_here(context);
  check_trajectories(context);
  check_from(context);
}

// Fails when --data does not exist. The library reads parts, slices, patterns and addresses of
// --data and reports errors.
void check_data(const Context& context) {
  const std::string& data = context.text("data");
  if (fs::exists(data) || data.find_first_of("+[*?") != std::string::npos) return;
  if (data.find("://") != std::string::npos) return;
  throw Failure(DLLM_NOT_FOUND, "--data: there is no file or folder " + data);
}

void check_sources(const Context& context) {
  check_adapter(context);
  check_teacher(context);
  check_data(context);
  for (const char* name : {"from", "tokenizer", "teacher"}) {
    if (!context.has(name) || fs::exists(context.text(name))) continue;
    if (std::string(name) == "teacher" &&
        (context.text(name) == "base" || context.text(name) == "rows"))
      continue;
    if (is_in_store(context.text(name))) continue;
    throw Failure(DLLM_NOT_FOUND,
                  "--" + std::string(name) + ": there is no file or folder " + context.text(name));
  }
}

void check_resumed(const Context& context, const std::string& out) {
  check_data(context);
  // A run in an object store may continue on any machine; its settings are on the machine where it
  // began.
  if (is_in_store(context.text("out")) && !fs::exists(out + "/run.json")) return;
  const Json start = Json::parse(read_start(out), nullptr, false);
  const auto before = [&](const std::string& name) -> Json {
    if (start.is_object() && start.contains(name)) return start.at(name);
    throw UsageFailure("--" + name + ": " + out + " has no record of the options of its start",
                       "leave it out to continue, or start over with --fresh");
  };
  for (const char* name : kStartNumbers) {
    if (context.typed(name) && before(name) != Json(context.number(name))) {
      const Json old = before(name);
      fail_differs(name, context.text(name), old.is_null() ? "none" : old.dump(), out);
    }
  }
  for (const char* name : kStartPaths) {
    if (!context.has(name)) continue;
    const Json old = before(name);
    if (old.is_string() && is_same_place(old.get<std::string>(), full_path(context.text(name))))
      continue;
    fail_differs(name, context.text(name), old.is_null() ? "none" : old.dump(), out);
  }
  if (context.typed("special-tokens") &&
      before("special-tokens") != Json(context.text("special-tokens"))) {
    const Json old = before("special-tokens");
    fail_differs("special-tokens", context.text("special-tokens"), old == "" ? "none" : old.dump(),
                 out);
  }
  if (context.typed("objective") && before("objective") != Json(context.text("objective")))
    fail_differs("objective", context.text("objective"), before("objective").dump(), out);
  for (const char* key : {"seed", "optimizer", "ema", "decay", "compat"}) {
    const Json::json_pointer place(std::string("/settings/trainer.") + key);
    const Json old = start.is_object() && start.contains(place) ? start.at(place) : Json(nullptr);
    const std::string now = context.option("trainer", key);
    // --seed sets several seeds, and --trainer.seed only this one.
    const bool is_own = std::string(key) == "seed" && context.typed_alone("trainer", key);
    if (context.typed("trainer", key) && !old.is_null() && old.dump() != now)
      fail_differs(is_own ? "trainer.seed" : key, now, old.dump(), out);
  }
  const Json of_objective = Json::parse(options_json(context, "objective"));
  for (const auto& [key, value] : of_objective.items()) {
    const Json::json_pointer place("/settings/objective." + key);
    const bool is_known = start.is_object() && start.contains(place);
    if (context.typed("objective", key) && is_known && start.at(place) != value)
      fail_differs("objective." + key, value.dump(), start.at(place).dump(), out);
  }
  for (const std::string kind : {"model", "adapter"}) {
    const Json options = Json::parse(options_json(context, kind.c_str()));
    for (const auto& [key, value] : options.items()) {
      const bool given = key == "seed" ? context.typed_alone(kind, key) : context.typed(kind, key);
      if (!given) continue;
      const Json first = before(kind);
      const Json old = first.is_object() ? first.value(key, Json(nullptr)) : Json(nullptr);
      if (old == value || (key == "adapter" && is_one_folder(old, value))) continue;
      const bool is_alpha = kind == "adapter" && key == "alpha" && before("lora").is_number();
      if (is_alpha && meant_alpha(old, before("lora")) == meant_alpha(value, before("lora")))
        continue;
      fail_differs(kind + "." + key, value.dump(), old.is_null() ? "none" : old.dump(), out);
    }
  }
}

int64_t interval_steps(const std::string& shown, double every, int64_t steps) {
  constexpr double kMost = 1 << 30;
  if (every == 0 || every >= 1) return static_cast<int64_t>(std::min(every, kMost));
  if (steps == 0) {
    throw UsageFailure(shown + " below 1 is a part of a run, and its number of steps is not known",
                       "set --steps, or write a number of steps");
  }
  return static_cast<int64_t>(std::ceil(static_cast<double>(steps) * every));
}

bool has_budget(const Context& context) {
  return std::stod(context.option("trainer", "minutes")) > 0 ||
         std::stoll(context.option("trainer", "tokens")) > 0;
}

double eval_part(const Context& context, int64_t steps) {
  const double every = context.real("eval-every");
  const bool by_clock = has_budget(context);
  // The processes of a job have clocks of their own, and all evaluate at the same step.
  return steps == 0 && by_clock && every < 1 && job_size() == 1 ? every : 0;
}

int64_t eval_every(const Context& context, int64_t steps) {
  if (eval_part(context, steps) > 0) return 0;
  return interval_steps("--eval-every", context.real("eval-every"), steps);
}

} // namespace dllm::cli
