// dllm sweep trains one run for each point of a grid and for each draw of random options.

#include "../../command.h"
#include "../../fingerprint.h"
#include "../../options/command_flags.h"
#include "../../options/flag_hints.h"
#include "../../pictures/report.h"
#include "../../processes/process.h"
#include "../../pulling/pulling.h"
#include "../train/training.h"
#include "sweep_plan.h"
#include "sweep_record.h"
#include "sweep_score.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The options that end a run.
constexpr const char* kLimitKeys[] = {"steps",          "minutes",       "tokens",
                                      "epochs",         "trainer.steps", "trainer.minutes",
                                      "trainer.tokens", "loader.epochs"};

const Command& train() {
  const auto& all = commands();
  return *std::find_if(all.begin(), all.end(), [](const Command& c) { return c.name == "train"; });
}

std::string folder_of(const SweepPlan& plan, const SweepRun& run) {
  return plan.out + "/" + run.name;
}

std::string config_file(const SweepPlan& plan, const SweepRun& run) {
  return plan.out + "/configs/" + run.name + ".json";
}

// Returns the config with which a run was started last; null without one.
Json config_before(const SweepPlan& plan, const SweepRun& run) {
  std::ifstream file(config_file(plan, run), std::ios::binary);
  Json before = Json::parse(file, nullptr, false);
  return before.is_object() && fs::exists(folder_of(plan, run)) ? before : Json();
}

// Fails when a run was started with another config. Only its limits may differ.
void check_config(const SweepPlan& plan, const SweepRun& run) {
  Json before = config_before(plan, run), now = run.config;
  if (!before.is_object()) return;
  for (const char* limit : kLimitKeys) {
    before.erase(limit);
    now.erase(limit);
  }
  Json keys = before;
  keys.update(now);
  for (const auto& [key, either] : keys.items()) {
    const Json was = before.value(key, Json()), is = now.value(key, Json());
    if (was == is) continue;
    throw Failure(DLLM_FAILED_PRECONDITION,
                  folder_of(plan, run) + " was started with " + key + " " + was.dump() + ", here " +
                      is.dump(),
                  "choose another out for the changed sweep, or remove that folder");
  }
}

// Fails when the files of the data are not those that the run was started with.
void check_data(const SweepPlan& plan, const SweepRun& run) {
  const auto data = run.config.find("data");
  const Json start = Json::parse(read_start(folder_of(plan, run)), nullptr, false);
  if (data == run.config.end() || !data->is_string() || !start.is_object()) return;
  const Json before = start.value(Json::json_pointer("/settings/data"), Json());
  const Json now = Json::parse(fingerprint_of(data->get<std::string>()));
  if (!before.is_object() || !before.contains("checksum") || !now.is_object()) return;
  for (const char* key : {"files", "bytes", "checksum"}) {
    if (before.value(key, Json()) == now.value(key, Json())) continue;
    throw Failure(DLLM_FAILED_PRECONDITION,
                  data->get<std::string>() + " has other content than when " +
                      folder_of(plan, run) + " was started: " + key + " " + now[key].dump() +
                      ", then " + before.value(key, Json()).dump(),
                  "choose another out for the changed data, or remove that folder");
  }
}

// Returns true when the run goes on after its last step with other limits than it was started with.
bool has_new_limits(const Json& before, const SweepRun& run, int64_t step) {
  for (const char* key : {"steps", "trainer.steps"}) {
    const Json steps = run.config.value(key, Json());
    if (steps.is_number_integer() && steps.get<int64_t>() > 0 && steps.get<int64_t>() <= step)
      return false; // it has these steps
  }
  return std::any_of(std::begin(kLimitKeys), std::end(kLimitKeys), [&](const char* limit) {
    return before.value(limit, Json()) != run.config.value(limit, Json());
  });
}

// Notes the runs that go on with other limits.
void note_continued(const Context& context, const SweepPlan& plan, SweepRecord& record) {
  for (const SweepRun& run : plan.runs) {
    const Json before = config_before(plan, run);
    const std::string folder = folder_of(plan, run);
    const int64_t step = step_of(before.is_object() ? latest_checkpoint(context, folder) : "");
    if (step == 0)
      record.set_continued(run, 0);
    else if (has_new_limits(before, run, step))
      record.set_continued(run, step);
  }
}

void write_configs(const SweepPlan& plan) {
  std::error_code failed;
  fs::create_directories(plan.out + "/configs", failed);
  for (const SweepRun& run : plan.runs) {
    std::ofstream file(config_file(plan, run), std::ios::binary);
    file << run.config.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
    file.close();
    if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + config_file(plan, run));
  }
}

Parsed parse_run(const SweepPlan& plan, const SweepRun& run) {
  std::string words[] = {"train", "--config", config_file(plan, run), "--out",
                         folder_of(plan, run)};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse(train(), static_cast<int>(argv.size()), argv.data());
}

// Trains a run, or goes on with it. Returns false when the user stopped it.
bool train_run(const SweepPlan& plan, const SweepRun& run, SweepRecord& record) {
  Parsed parsed = parse_run(plan, run);
  const Interrupt interrupt(parsed.context.task());
  try {
    pull_arguments(train(), parsed.context);
    const int code = train().run(parsed.context);
    if (dllm_task_is_cancelled(parsed.context.task()) != 0) return false;
    record.set(run, code == 0 ? "finished" : "failed");
  } catch (const Failure& failure) {
    if (dllm_task_is_cancelled(parsed.context.task()) != 0) return false;
    const std::string hint = hint_in_flags(failure.hint(), flags_of(train()));
    std::fprintf(stderr, "%s: %s\n", run.name.c_str(), failure.what());
    if (!hint.empty()) std::fprintf(stderr, "      %s\n", hint.c_str());
    record.set(run, "failed", failure.what(), hint);
  }
  return true;
}

// Names the runs of an earlier plan, which are not in the table.
void note_others(const SweepPlan& plan, const SweepRecord& record) {
  constexpr size_t kMost = 8;
  const std::vector<std::string> names = record.others(plan);
  if (names.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i > 0 ? " " : "") + names[i];
  if (names.size() > kMost) list += " ...";
  std::fprintf(stderr, "%s has %zu more runs, which this plan does not make: %s\n",
               plan.out.c_str(), names.size(), list.c_str());
}

// Prints the table of all runs and writes the page that compares them.
void report(const Context& context, const SweepPlan& plan, const SweepRecord& record) {
  std::vector<RunRecord> runs;
  std::vector<SweepScore> scores;
  for (const SweepRun& run : plan.runs) {
    SweepScore score{run.name, record.state(run), record.continued_from(run)};
    const bool has_state = !score.state.empty();
    try {
      runs.push_back(read_run(folder_of(plan, run)));
      runs.back().remark = continued_text(score.continued);
      if (!has_state) score.state = "stopped";
      score.read(runs.back());
      scores.push_back(std::move(score));
    } catch (const Failure&) { // it has not taken a step
      if (!has_state) score.state = "waiting";
      scores.push_back(std::move(score));
    }
  }
  print_scores(plan, std::move(scores), runs, context.json());
  note_others(plan, record);
  if (runs.empty()) return;
  const std::string page = plan.out + "/report.html";
  std::ofstream file(page, std::ios::binary);
  file << compare_html(runs);
  file.close();
  if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + page);
  std::fprintf(stderr, "wrote %s\n", page.c_str());
}

int sweep(Context& context) {
  const std::string file = context.text("plan");
  const SweepPlan plan = read_sweep(read_all(file), file);
  for (const SweepRun& run : plan.runs) {
    check_config(plan, run);
    check_data(plan, run);
  }
  const RunLock lock(plan.out);
  SweepRecord record(plan.out);
  note_continued(context, plan, record);
  write_configs(plan);
  // A wrong option ends the command before anything is trained.
  for (const SweepRun& run : plan.runs) {
    if (parse_run(plan, run).context.has("data")) continue;
    throw UsageFailure(file + ": train has no data: the text to train on",
                       "\"train\": {\"data\": \"corpus.txt\"}");
  }
  bool stopped = false;
  for (size_t i = 0; i < plan.runs.size() && !stopped; ++i) {
    const SweepRun& run = plan.runs[i];
    if (record.state(run) == "finished") continue;
    std::fprintf(stderr, "run %zu of %zu: %s\n", i + 1, plan.runs.size(), run.name.c_str());
    stopped = !train_run(plan, run, record) || dllm_task_is_cancelled(context.task()) != 0;
  }
  report(context, plan, record);
  if (stopped) return interrupted_code();
  const bool failed = std::any_of(plan.runs.begin(), plan.runs.end(), [&](const SweepRun& run) {
    return record.state(run) == "failed";
  });
  return failed ? kFailed : 0;
}

} // namespace

Command sweep_command() {
  using Kind = Argument::Kind;
  return {
      "sweep",
      "train runs for the points of a grid or for random options, and compare them",
      "dllm sweep plan.json\n"
      "  with plan.json: {\"out\": \"sweeps/lr\", \"train\": {\"data\": \"corpus.txt\", \"steps\": "
      "200},\n"
      "                   \"grid\": {\"lr\": [1e-3, 3e-3], \"hidden\": [64, 128]}}",
      {{Kind::positional, "plan", "",
        "a JSON file: out (folder of the runs), train (options of all runs, as for dllm train "
        "--config), grid (values of options), random (ranges or lists), count and seed of the "
        "draws. Started again, it skips finished runs and resumes the others",
        true}},
      {},
      sweep};
}

} // namespace dllm::cli
