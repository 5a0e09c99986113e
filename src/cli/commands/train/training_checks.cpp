#include "../../names.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kNumbers[] = {"vocab", "layers", "hidden"};
constexpr const char* kPaths[] = {"from", "tokenizer"};

void at_least(const Context& context, const char* name, int64_t least) {
  if (context.real(name) >= static_cast<double>(least)) return;
  throw UsageFailure("--" + std::string(name) + " " + context.text(name) + " is below " +
                     std::to_string(least));
}

Json all_options(const Context& context, const std::string& kind) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options(kind), out, err);
  }));
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
  if (context.typed("model", "adapter")) {
    throw UsageFailure("--adapter is for decoding: dllm train does not train adapters yet");
  }
  check_engine(context);
  if (context.has("schedule")) return;
  const Json options = all_options(context, "schedule");
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
  for (const char* name : {"layers", "hidden"}) {
    if (context.typed(name))
      throw UsageFailure("--" + std::string(name) + " is for a new model; --from has its own");
  }
  if (context.typed_alone("model", "seed"))
    throw UsageFailure("--model.seed is for a new model; --from has its weights");
}

std::string full_path(const std::string& path) {
  if (is_in_store(path)) return path;
  std::error_code ignored;
  const fs::path full = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  return full.empty() ? path : full.string();
}

[[noreturn]] void fail_differs(const std::string& name, const std::string& given,
                               const std::string& before, const std::string& out) {
  throw UsageFailure(dashed("--" + name) + " " + given + " differs from " + before + ", which " +
                         out + " was started with",
                     "leave it out to continue, or start over with --fresh");
}

} // namespace

void check_values(Context& context) {
  at_least(context, "layers", 1);
  at_least(context, "eval-every", 0);
  at_least(context, "eval-batches", 0);
  at_least(context, "examples", 0);
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
  check_decided_here(context);
  check_from(context);
}

// Fails when --data does not exist. The library reads parts, slices and patterns of --data and
// reports errors.
void check_data(const Context& context) {
  const std::string& data = context.text("data");
  if (fs::exists(data) || data.find_first_of("+[*?") != std::string::npos) return;
  throw Failure(DLLM_NOT_FOUND, "--data: there is no file or folder " + data);
}

void check_sources(const Context& context) {
  check_data(context);
  for (const char* name : {"from", "tokenizer"}) {
    if (!context.has(name) || fs::exists(context.text(name))) continue;
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
  std::ifstream file(out + "/run.json");
  const Json start = Json::parse(file, nullptr, false);
  const auto before = [&](const std::string& name) -> Json {
    if (start.is_object() && start.contains(name)) return start.at(name);
    throw UsageFailure("--" + name + ": " + out + " has no record of the options of its start",
                       "leave it out to continue, or start over with --fresh");
  };
  for (const char* name : kNumbers) {
    if (context.typed(name) && before(name) != Json(context.number(name))) {
      fail_differs(name, context.text(name), before(name).dump(), out);
    }
  }
  for (const char* name : kPaths) {
    if (!context.has(name) || before(name) == Json(full_path(context.text(name)))) continue;
    fail_differs(name, context.text(name), before(name).is_null() ? "none" : before(name).dump(),
                 out);
  }
  const Json model = all_options(context, "model");
  for (const auto& [key, value] : model.items()) {
    if (!context.typed("model", key)) continue;
    const Json old = before("model").value(key, Json(nullptr));
    if (old != value) fail_differs("model." + key, value.dump(), old.dump(), out);
  }
}

namespace {

// Options that change the rows of a run, their order, or its updates. Options for the length of a
// run and for its saves may change at every start.
constexpr const char* kCompared[] = {"dataset", "loader", "objective", "schedule", "trainer"};
constexpr const char* kOfLength[] = {"steps",     "minutes",   "tokens",     "root",   "save_every",
                                     "save_wait", "keep_last", "sync_every", "epochs", "memory"};

Json start_settings(const Context& context) {
  const std::string data = full_path(context.text("data"));
  Json settings = {{"data", data}};
  std::error_code no_file;
  if (const auto bytes = fs::file_size(data, no_file); !no_file) settings["data bytes"] = bytes;
  for (const char* kind : kCompared) {
    const Json options = all_options(context, kind);
    for (const auto& [key, value] : options.items()) {
      if (std::find(std::begin(kOfLength), std::end(kOfLength), key) == std::end(kOfLength))
        settings[std::string(kind) + "." + key] = value;
    }
  }
  return settings;
}

Json read_start(const std::string& out) {
  std::ifstream file(out + "/run.json");
  return Json::parse(file, nullptr, false);
}

void write_json(const std::string& path, const Json& value) {
  std::ofstream file(path);
  file << value.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw Failure(DLLM_RESOURCE_EXHAUSTED, "cannot write " + path);
}

} // namespace

void note_changes(const Context& context, const std::string& out) {
  Json start = read_start(out);
  if (!start.is_object()) return; // of a run in an object store that began elsewhere
  const Json settings = start_settings(context), before = start.value("settings", Json::object());
  std::string changes;
  for (const auto& [key, value] : settings.items()) {
    if (!before.contains(key) || before.at(key) == value) continue;
    changes += (changes.empty() ? "" : ", ") + key + " " +
               value.dump(-1, ' ', false, Json::error_handler_t::replace) + " (was " +
               before.at(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ")";
  }
  if (!changes.empty()) std::fprintf(stderr, "differs from the last start: %s\n", changes.c_str());
  start["settings"] = settings;
  write_json(out + "/run.json", start);
}

void write_start(const Context& context, const std::string& out) {
  Json start;
  for (const char* name : kNumbers) start[name] = context.number(name);
  for (const char* name : kPaths) {
    start[name] = context.has(name) ? Json(full_path(context.text(name))) : Json(nullptr);
  }
  start["objective"] = context.text("objective");
  start["model"] = all_options(context, "model");
  start["settings"] = start_settings(context);
  write_json(out + "/run.json", start);
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

int64_t eval_every(const Context& context, int64_t steps) {
  return interval_steps("--eval-every", context.real("eval-every"), steps);
}

} // namespace dllm::cli
