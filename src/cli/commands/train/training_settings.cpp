// This file reads and writes run.json, the record of what a run was started with. A resumed run
// keeps these settings, and names those that differ.

#include "../../fingerprint.h"
#include "../../options/names.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Options that change the rows of a run, their order, or its updates.
constexpr const char* kCompared[] = {"dataset", "loader", "objective", "schedule", "trainer"};
// Options for the length of a run and for its saves may change at every start.
constexpr const char* kOfLength[] = {"steps",     "minutes",   "tokens",     "root",   "save_every",
                                     "save_wait", "keep_last", "sync_every", "epochs", "memory"};
// Each of these limits ends a run. A new limit replaces all earlier ones.
struct Limit {
  const char *kind, *key;
};
constexpr Limit kLimits[] = {
    {"trainer", "steps"}, {"trainer", "minutes"}, {"trainer", "tokens"}, {"loader", "epochs"}};
// The engine belongs to the machine, but this option changes the numbers.
constexpr const char* kEngineKey = "arithmetic";

template <class List> bool is_in(const List& list, const std::string& name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json start_of(const std::string& out) {
  const Json start = Json::parse(read_start(out), nullptr, false);
  return start.is_object() ? start : Json::object();
}

// Returns a member that is an object; an empty object for others.
Json object_in(const Json& value, const char* key) {
  const auto found = value.find(key);
  return found != value.end() && found->is_object() ? *found : Json::object();
}

void write_start_file(const std::string& out, const Json& value) {
  write_all(out + "/run.json", value.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

bool is_limit(const std::string& kind, const std::string& key) {
  return std::any_of(std::begin(kLimits), std::end(kLimits),
                     [&](const Limit& limit) { return kind == limit.kind && key == limit.key; });
}

// Returns true when this start keeps the option of the start before it.
bool is_kept(const std::string& kind, const std::string& key, bool has_new_limit) {
  if (kind == "engine") return key == kEngineKey;
  // Of new weights; and the checkpoint has the adapter and the weights.
  if (kind == "model") return key != "seed" && key != "adapter" && key != "weights";
  if (!is_in(kCompared, kind)) return false;
  return !has_new_limit || !is_limit(kind, key);
}

// Returns true when the argument belongs to every start, and not to one alone.
bool is_kept(const std::string& argument) {
  return !is_in(kStartNumbers, argument) && !is_in(kStartPaths, argument) && argument != "out" &&
         argument != "fresh" && argument != "json" && argument != "config" &&
         argument != "special-tokens";
}

// Returns a part of data with a full path; its rows and times stay at its end.
std::string full_part(const std::string& part) {
  const bool is_path = !part.empty() && part[0] != ' ' && part.find('=') == std::string::npos &&
                       part.find("://") == std::string::npos; // an address of the hub
  return is_path ? full_path(part) : part;
}

// Returns data with the full paths of its parts, which are joined by '+'.
std::string full_data(const std::string& data) {
  std::error_code ignored;
  if (fs::exists(data, ignored)) return full_path(data);
  const std::string here = fs::current_path(ignored).string();
  if (here.find_first_of("+=[*?") != std::string::npos) return data; // signs of the parts
  std::string made;
  for (size_t begin = 0; begin <= data.size();) {
    const size_t end = std::min(data.find('+', begin), data.size());
    made += (begin == 0 ? "" : "+") + full_part(data.substr(begin, end - begin));
    begin = end + 1;
  }
  return made;
}

// Makes the path full that an option of this kind names, if any.
void make_full(Json& options, const char* kind, const char* key) {
  if (!options.contains(kind) || !options[kind].contains(key)) return;
  Json& path = options[kind][key];
  if (path.is_string() && path != "") path = full_path(path.get<std::string>());
}

// Returns what this start was given, for later starts.
Json given_settings(const Context& context) {
  Json given = Json::parse(context.given());
  Json& arguments = given["arguments"];
  for (auto it = arguments.begin(); it != arguments.end();)
    it = is_kept(it.key()) ? std::next(it) : arguments.erase(it);
  if (arguments.contains("data")) arguments["data"] = full_data(context.text("data"));
  std::error_code ignored;
  if (arguments.contains("template") && fs::exists(context.text("template"), ignored))
    arguments["template"] = full_path(context.text("template"));
  if (arguments.contains("teacher") && context.text("teacher") != "base" &&
      context.text("teacher") != "rows")
    arguments["teacher"] = full_path(context.text("teacher"));
  make_full(given["options"], "dataset", "token_file");
  make_full(given["options"], "loader", "arrays");
  make_full(given["options"], "loader", "trajectories");
  return given;
}

Json data_settings(const Context& context, const Run& run) {
  Json data = Json::parse(fingerprint_of(context.text("data")));
  if (data.is_null()) data = Json::object();
  data["path"] = full_data(context.text("data"));
  data["rows"] = dllm_dataset_size(run.data.get());
  return data;
}

Json start_settings(const Context& context, const Run& run) {
  Json settings = {{"data", data_settings(context, run)},
                   {"eval-batches", context.number("eval-batches")}};
  for (const char* kind : kCompared) {
    Json options = {{kind, Json::parse(options_json(context, kind))}};
    make_full(options, "dataset", "token_file");
    make_full(options, "loader", "arrays");
    make_full(options, "loader", "trajectories");
    const Json& own = options[kind];
    for (const auto& [key, value] : own.items()) {
      if (!is_in(kOfLength, key)) settings[std::string(kind) + "." + key] = value;
    }
  }
  return settings;
}

// Returns "data corpus.txt (120 rows, 8000 bytes)".
std::string data_text(const Json& data) {
  std::string text =
      data.value("path", "") + " (" + std::to_string(data.value("rows", 0LL)) + " rows";
  if (data.contains("bytes")) text += ", " + std::to_string(data.value("bytes", 0LL)) + " bytes";
  return text + ")";
}

// The path does not count where the files are the same.
bool is_same_data(Json now, Json before) {
  if (!before.is_object()) return true; // of an older run, whose record has no fingerprint
  if (now.contains("checksum") && before.contains("checksum")) {
    now.erase("path");
    before.erase("path");
  }
  return now == before;
}

const char* name_of(RowForm form) {
  return form == RowForm::texts           ? "texts"
         : form == RowForm::conversations ? "conversations"
                                          : "instructions";
}

std::string changes_of(const Json& settings, const Json& before) {
  std::string changes;
  for (const auto& [key, value] : settings.items()) {
    if (!before.contains(key) || before.at(key) == value) continue;
    const bool is_data = key == "data";
    if (is_data && is_same_data(value, before.at(key))) continue;
    const std::string now = is_data ? data_text(value) : dumped(value);
    const std::string was = is_data ? data_text(before.at(key)) : dumped(before.at(key));
    changes += (changes.empty() ? "" : ", ") + key + " " + now +
               (now == was ? ", whose content has changed" : " (was " + was + ")");
  }
  return changes;
}

// Returns true when held-out losses of both starts can be compared. Options of the trainer change
// the weights alone.
bool has_same_held_out_loss(const Json& settings, const Json& before) {
  for (const auto& [key, value] : settings.items()) {
    if (key.rfind("trainer.", 0) == 0 || !before.contains(key)) continue;
    if (key == "data" ? !is_same_data(value, before.at(key)) : before.at(key) != value)
      return false;
  }
  return true;
}

bool has_new_limit(const Context& context) {
  return std::any_of(std::begin(kLimits), std::end(kLimits),
                     [&](const Limit& limit) { return context.typed(limit.kind, limit.key); });
}

} // namespace

std::string read_start(const std::string& out) {
  std::ifstream file(out + "/run.json", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string full_path(const std::string& path) {
  if (is_in_store(path)) return path;
  std::error_code ignored;
  const fs::path full = fs::absolute(path, ignored);
  fs::path normal = full.lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path(); // "runs/a/"
  // A folder that is a link has another parent than its name shows: "link/../a".
  const bool is_other = fs::exists(full, ignored) && !fs::equivalent(full, normal, ignored);
  return is_other || normal.empty() ? full.string() : normal.string();
}

bool is_same_place(const std::string& one, const std::string& other) {
  if (one == other) return true;
  std::error_code failed, ignored;
  const fs::path place = fs::weakly_canonical(one, failed);
  return !failed && place == fs::weakly_canonical(other, ignored);
}

namespace {

// Fails for a record without the data of the last start, unless this start names it.
void check_record(const Context& context, const std::string& out) {
  const std::string text = read_start(out);
  if (context.typed("data") || !fs::exists(out + "/run.json")) return;
  const Json start = Json::parse(text, nullptr, false);
  const Json::json_pointer data("/given/arguments/data");
  const char* what = text.empty()           ? "is empty"
                     : start.is_discarded() ? "is not JSON"
                     : !start.is_object() || !start.contains(data) || !start.at(data).is_string()
                         ? "does not have the data of the last start"
                         : nullptr;
  if (what == nullptr) return;
  throw Failure(DLLM_DATA_LOSS,
                out + "/run.json " + what + ": the settings of the run are not known",
                "give --data and the other options of the run again, or start over with --fresh");
}

} // namespace

void keep_settings(Context& context, const std::string& out) {
  check_record(context, out);
  const Json given = object_in(start_of(out), "given");
  const Json arguments = object_in(given, "arguments"), options = object_in(given, "options");
  const bool replaces_limits = has_new_limit(context);
  std::string kept;
  const auto add = [&](const std::string& name, const std::string& value) {
    kept += (kept.empty() ? "" : ", ") + name + " " + value;
  };
  for (const auto& [name, value] : arguments.items()) {
    if (!value.is_string() || !is_kept(name)) continue;
    if (context.take_argument(name, value.get<std::string>()))
      add(dashed(name), value.get<std::string>());
  }
  // The objective decides which options there are.
  context.change_kind("objective", "objective:" + context.text("objective"));
  for (const auto& [kind, keys] : options.items()) {
    if (!keys.is_object()) continue;
    for (const auto& [key, value] : keys.items()) {
      if (!is_kept(kind, key, replaces_limits)) continue;
      const std::string shown = out + "/run.json: " + kind + "." + key;
      if (context.take_option(kind, key, dumped(value), shown))
        add(dashed(kind + "." + key), dumped(value));
    }
  }
  if (!kept.empty()) std::fprintf(stderr, "kept from the last start: %s\n", kept.c_str());
}

void write_best(const Best& best, const std::string& out) {
  Json start = start_of(out);
  start["best"] = best.record();
  start.erase("evaluating");
  write_start_file(out, start);
}

void write_evaluating(int64_t step, const std::string& out) {
  Json start = start_of(out);
  start["evaluating"] = step;
  write_start_file(out, start);
}

void note_changes(const Context& context, Run& run, const std::string& out) {
  const Json start = start_of(out);
  if (start.empty()) return; // of a run in an object store that began elsewhere
  const Json settings = start_settings(context, run), before = object_in(start, "settings");
  const std::string changes = changes_of(settings, before);
  if (!changes.empty()) std::fprintf(stderr, "differs from the last start: %s\n", changes.c_str());
  const auto evaluating = start.find("evaluating");
  if (evaluating != start.end() && evaluating->is_number_integer())
    run.evaluating = evaluating->get<int64_t>();
  run.has_same_rows = has_same_held_out_loss(settings, before);
  if (run.has_same_rows)
    run.best = Best::of(object_in(start, "best"));
  else if (start.contains("best"))
    std::fprintf(stderr, "the lowest held-out loss is searched for from here on\n");
}

std::string rows_before(const Context& context, const std::string& out) {
  const Json settings = object_in(start_of(out), "settings");
  const Json now = Json::parse(options_json(context, "loader"));
  Json before = Json::object();
  for (const char* key : {"length", "pack", "truncate", "drop_tail"}) {
    const auto found = settings.find(std::string("loader.") + key);
    if (found != settings.end() && now.contains(key) && *found != now.at(key)) before[key] = *found;
  }
  if (before.empty()) return {};
  before.update({{"epochs", 1}, {"batch", 1}, {"ranks", 1}, {"rank", 0}});
  return dumped(before);
}

void write_changes(const Context& context, const Run& run, const std::string& out) {
  Json start = start_of(out);
  if (start.empty() || job_rank() > 0) return;
  if (!run.best.has_loss()) start.erase("best");
  start["given"] = given_settings(context);
  start["settings"] = start_settings(context, run);
  write_start_file(out, start);
}

void write_start(const Context& context, const Run& run, const std::string& out) {
  Json start;
  for (const char* name : kStartNumbers)
    start[name] = context.has(name) ? Json(context.number(name)) : Json(nullptr);
  for (const char* name : kStartPaths) {
    start[name] = context.has(name) ? Json(full_path(context.text(name))) : Json(nullptr);
  }
  start["special-tokens"] = context.text("special-tokens");
  start["objective"] = context.text("objective");
  start["form"] = name_of(run.form);
  start["model"] = Json::parse(options_json(context, "model"));
  start["adapter"] =
      wants_adapter(context) ? Json::parse(options_json(context, "adapter")) : Json(nullptr);
  start["given"] = given_settings(context);
  start["settings"] = start_settings(context, run);
  write_start_file(out, start);
}

} // namespace dllm::cli
