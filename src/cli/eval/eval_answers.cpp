// dllm eval --task programs and --task answers judge whether completions of a prompt are right.

#include "../fingerprint.h"
#include "eval.h"

#include <cmath>
#include <sstream>
#include <utility>

namespace dllm::cli {
namespace {

// Judges whether a completion is right.
class Judge {
public:
  virtual ~Judge() = default;
  virtual ProgramTask task(const EvalJson& row, const std::string& path, size_t index) const = 0;
  // Returns the names of the settings that judge completions.
  virtual std::vector<std::string> settings() const = 0;
  // Returns {"passed", "result"}, and "error" when it cannot judge this completion. Fails when it
  // can judge none.
  virtual EvalJson judge(const EvalJson& row, const ProgramTask& task,
                         const std::string& completion, dllm_task* cancel) const = 0;
};

class ProgramJudge final : public Judge {
public:
  explicit ProgramJudge(const Context& context)
      : runner_(context.text("python"), {static_cast<double>(context.number("seconds")),
                                         context.number("memory"), 256, 16}) {}
  std::vector<std::string> settings() const override { return {"seconds", "memory_mib"}; }
  ProgramTask task(const EvalJson& row, const std::string& path, size_t index) const override {
    return program_task(row, path, index);
  }
  EvalJson judge(const EvalJson&, const ProgramTask& task, const std::string& completion,
                 dllm_task* cancel) const override {
    return run_tests(runner_, task, completion, cancel);
  }

private:
  ProgramRunner runner_;
};

// A judge that runs a Lua script at level safe. The script has the globals row (of the file) and
// text (the completion), and returns a boolean.
class LuaJudge final : public Judge {
public:
  // Fails for a script that Lua cannot read, before anything is decoded.
  explicit LuaJudge(std::string checker) : checker_(std::move(checker)) {
    const Owned<dllm_lua> lua = new_lua();
    set(lua.get(), "code", read_all(checker_));
    set(lua.get(), "name", "@" + checker_);
    const std::string code = "local _, why = load(code, name) return why";
    const EvalJson why = EvalJson::parse(dllm::api::text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_lua_run_text(lua.get(), "checker", code.data(), static_cast<int64_t>(code.size()),
                               nullptr, out, err);
    }));
    if (!why.empty() && why[0].is_string())
      throw Failure(DLLM_SCRIPT_FAILED, "--checker: " + why[0].get<std::string>());
  }
  std::vector<std::string> settings() const override { return {"checker", "checker_checksum"}; }
  ProgramTask task(const EvalJson& row, const std::string& path, size_t index) const override {
    ProgramTask task;
    task.id = id_of(row, index);
    task.prompt = text_of(row, "prompt", path, index);
    if (row.contains("suffix")) task.suffix = text_of(row, "suffix", path, index);
    return task;
  }
  EvalJson judge(const EvalJson& row, const ProgramTask&, const std::string& completion,
                 dllm_task* cancel) const override {
    try {
      return check(row, completion, cancel);
    } catch (const Failure& failure) {
      if (failure.status() == DLLM_CANCELLED) throw;
      return {{"passed", false}, {"result", "the checker failed"}, {"error", failure.what()}};
    }
  }

private:
  EvalJson check(const EvalJson& row, const std::string& completion, dllm_task* cancel) const {
    const Owned<dllm_lua> lua = new_lua();
    set(lua.get(), "row", row);
    set(lua.get(), "text", completion);
    const EvalJson returned =
        EvalJson::parse(dllm::api::text([&](dllm_buffer* out, dllm_error* err) {
          return dllm_lua_run_file(lua.get(), checker_.c_str(), nullptr, 0, cancel, out, err);
        }));
    if (returned.empty() || !returned[0].is_boolean())
      throw Failure(DLLM_SCRIPT_FAILED, checker_ + " returns no boolean",
                    "the globals are row and text; return text == row.answer");
    const bool passed = returned[0].get<bool>();
    const bool says_why = returned.size() > 1 && returned[1].is_string();
    return {{"passed", passed},
            {"result", says_why ? returned[1].get<std::string>()
                       : passed ? "passed"
                                : "wrong"}};
  }

  static Owned<dllm_lua> new_lua() {
    const auto options = make<dllm_options>(
        [](dllm_options** out, dllm_error* err) { return dllm_options_new("lua", out, err); });
    const std::string values = R"({"sandbox": "safe", "step_limit": 1000000000})";
    call([&](dllm_error* err) {
      return dllm_options_set_json(options.get(), values.data(),
                                   static_cast<int64_t>(values.size()), err);
    });
    return make<dllm_lua>(
        [&](dllm_lua** out, dllm_error* err) { return dllm_lua_new(options.get(), out, err); });
  }

  static void set(dllm_lua* lua, const char* name, const EvalJson& value) {
    const std::string json = value.dump(-1, ' ', false, EvalJson::error_handler_t::replace);
    call([&](dllm_error* err) {
      return dllm_lua_set_json(lua, name, json.data(), static_cast<int64_t>(json.size()), err);
    });
  }

  std::string checker_;
};

std::vector<int64_t> wanted_ks(const Context& context) {
  std::vector<int64_t> ks;
  std::istringstream words(context.text("k"));
  for (std::string word; std::getline(words, word, ',');) {
    const bool digits = !word.empty() && word.size() < 8 &&
                        word.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoll(word) < 1)
      throw UsageFailure("--k takes numbers with commas, not " + context.text("k"));
    ks.push_back(std::stoll(word));
  }
  return ks;
}

// Fails for a k above the completions of every task.
void check_ks(const std::vector<int64_t>& ks, int64_t samples) {
  for (const int64_t k : ks) {
    if (k <= samples) continue;
    const std::string word = std::to_string(k);
    throw UsageFailure("--k " + word + ": pass@" + word + " needs " + word +
                           " completions of a task, and there are " + std::to_string(samples),
                       "set --samples " + word + ", or a smaller --k");
  }
}

// Returns for each k the mean of pass@k over the tasks with at least k samples, and its standard
// error.
EvalJson pass_rates(const EvalResults& results, const std::vector<int64_t>& ks) {
  std::map<std::string, std::pair<int64_t, int64_t>> counts; // samples, passed
  for (const EvalJson& line : results.lines()) {
    auto& [samples, passed] = counts[line["task"].get<std::string>()];
    ++samples;
    passed += line["passed"].get<bool>() ? 1 : 0;
  }
  EvalJson rates = EvalJson::object();
  for (const int64_t k : ks) {
    std::vector<double> each;
    for (const auto& [id, count] : counts) {
      if (count.first >= k) each.push_back(pass_at_k(count.first, count.second, k));
    }
    if (each.empty()) continue;
    const Mean mean = mean_of(each);
    rates["pass@" + std::to_string(k)] = {
        {"value", mean.value}, {"error", mean.error}, {"tasks", each.size()}};
  }
  return rates;
}

// Adds {"checker_errors": {"rows", "counted_as", "first"}} when the checker failed on rows.
void add_errors(const EvalResults& results, EvalJson* report) {
  int64_t rows = 0;
  std::string first;
  for (const EvalJson& line : results.lines()) {
    if (!line.contains("error")) continue;
    if (rows++ == 0)
      first = line["task"].get<std::string>() + ": " + line["error"].get<std::string>();
  }
  if (rows == 0) return;
  (*report)["checker_errors"] = {{"rows", rows}, {"counted_as", "not passed"}, {"first", first}};
}

EvalJson settings_of(const Context& context) {
  EvalJson settings = {{"task", context.text("task")}, {"data", context.text("data")}};
  if (context.text("task") == "answers") {
    settings["checker"] = context.text("checker");
    settings["checker_checksum"] = checksum_of(context.text("checker"));
  } else {
    settings["seconds"] = context.number("seconds");
    settings["memory_mib"] = context.number("memory");
  }
  settings["data_checksum"] = checksum_of(context.text("data"));
  if (context.has("solutions")) {
    settings["solutions"] = context.text("solutions");
    settings["solutions_checksum"] = checksum_of(context.text("solutions"));
    return settings;
  }
  settings.update(model_facts(context));
  return settings;
}

std::string result_id(const ProgramTask& task, int64_t sample) {
  return task.id + "#" + std::to_string(sample);
}

void note_again(const Context& context, size_t completions) {
  if (completions == 0 || context.flag("quiet")) return;
  std::fprintf(stderr, "%zu completions of %s are scored again %s\n", completions,
               context.text("out").c_str(),
               context.has("checker") ? "by another checker" : "with other limits of programs");
}

std::unique_ptr<Judge> judge_of(const Context& context) {
  if (context.text("task") == "programs") return std::make_unique<ProgramJudge>(context);
  if (!context.has("checker"))
    throw UsageFailure("--task answers needs --checker FILE.lua, which returns true or false");
  return std::make_unique<LuaJudge>(context.text("checker"));
}

} // namespace

EvalJson evaluate_answers(Context& context) {
  const std::string path = context.text("data");
  const std::vector<EvalJson> rows = read_tasks(path, context.number("limit"));
  const std::vector<int64_t> ks = wanted_ks(context);
  const std::unique_ptr<Judge> judge = judge_of(context);
  std::vector<ProgramTask> tasks;
  for (size_t i = 0; i < rows.size(); ++i) tasks.push_back(judge->task(rows[i], path, i));
  const std::unique_ptr<Completions> completions = completions_of(context);
  EvalJson settings = settings_of(context);
  if (!tasks.empty()) settings.update(completions->settings(tasks[0].prompt, tasks[0].suffix));
  int64_t total = 0, without = 0, most = 0;
  for (const ProgramTask& task : tasks) {
    most = std::max(most, completions->count(task.id));
    total += completions->count(task.id);
    without += completions->count(task.id) == 0 ? 1 : 0;
  }
  if (context.typed("k")) check_ks(ks, most);
  EvalResults results(context.has("out") ? context.text("out") : "", settings, total,
                      context.flag("quiet"), judge->settings());
  const auto judged = [&](size_t i, int64_t sample, const std::string& text) {
    EvalJson line = {
        {"id", result_id(tasks[i], sample)}, {"task", tasks[i].id}, {"sample", sample}};
    line.update(judge->judge(rows[i], tasks[i], text, context.task()));
    line["completion"] = text;
    return line;
  };
  std::vector<std::pair<size_t, int64_t>> missing, unjudged; // task and sample
  for (size_t i = 0; i < tasks.size(); ++i) {
    for (int64_t sample = 0; sample < completions->count(tasks[i].id); ++sample) {
      const std::string id = result_id(tasks[i], sample);
      if (results.take(id)) continue;
      const bool has_text = results.unjudged(id).has_value();
      (has_text ? unjudged : missing).emplace_back(i, sample);
      if (!has_text) completions->expect(tasks[i].prompt, tasks[i].suffix, sample);
    }
  }
  note_again(context, unjudged.size());
  std::vector<EvalJson> again;
  for (const auto& [i, sample] : unjudged)
    again.push_back(judged(i, sample, *results.unjudged(result_id(tasks[i], sample))));
  if (results.judges_again()) results.add_judged(again);
  for (const auto& [i, sample] : missing) {
    const ProgramTask& task = tasks[i];
    const std::string text = completions->get(task.id, task.prompt, task.suffix, sample);
    results.add(judged(i, sample, completions->from_model() ? trimmed(task, text) : text));
  }
  EvalJson report = {{"tasks", tasks.size()},
                     {"without_completion", without},
                     {"samples", results.lines().size()},
                     {"pass", pass_rates(results, ks)},
                     {"resumed", results.resumed()},
                     {"scored_again", again.size()},
                     {"settings", settings}};
  add_errors(results, &report);
  return report;
}

} // namespace dllm::cli
